#include "longbow/ops/orders.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

Tensor on_cpu(const Tensor& x, const Tensor& order, const Tensor&, int64_t places) {
  return in_orders_formula(x, order, places);
}
Tensor backward_on_cpu(const Tensor& g, const Tensor&, const Tensor& inverse) {
  return in_orders_formula_backward(g, inverse);
}
Two join_on_cpu(const Tensor& out, const Tensor& log_sum, const Tensor&, const Tensor& inverse) {
  const auto joined = join_orders_formula({out, log_sum}, inverse);
  return {joined.out, joined.log_sum};
}
Two join_backward_on_cpu(const Tensor& dout, const Tensor& dlog_sum, const Tensor& out,
                         const Tensor& log_sum, const Tensor& order, const Tensor& inverse) {
  const auto found =
      join_orders_formula_backward({dout, dlog_sum}, {out, log_sum}, {order, inverse});
  return {found.out, found.log_sum};
}

Tensor on_meta(const Tensor& x, const Tensor& order, const Tensor&, int64_t places) {
  return at::empty({x.size(0), x.size(1), order.size(2), places, x.size(3)}, x.options());
}
Tensor backward_on_meta(const Tensor& g, const Tensor&, const Tensor& inverse) {
  return at::empty({g.size(0), g.size(1), inverse.size(3), g.size(4)}, g.options());
}
Two join_on_meta(const Tensor& out, const Tensor& log_sum, const Tensor&, const Tensor& inverse) {
  const int64_t b = out.size(0), h = out.size(1), n = inverse.size(3);
  return {at::empty({b, h, n, out.size(4)}, out.options()),
          at::empty({b, h, n, 1}, log_sum.options())};
}
Two join_backward_on_meta(const Tensor&, const Tensor&, const Tensor& out, const Tensor& log_sum,
                          const Tensor&, const Tensor&) {
  return {at::empty_like(out), at::empty_like(log_sum)};
}

template <class F>
auto handle(const char* name, F*) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<F>();
}
Tensor call(const Tensor& x, const Tensor& order, const Tensor& inverse, int64_t places) {
  static const auto op = handle("longbow::in_orders", &on_cpu);
  return op.call(x, order, inverse, places);
}
Tensor call_backward(const Tensor& g, const Tensor& order, const Tensor& inverse) {
  static const auto op = handle("longbow::in_orders_backward", &backward_on_cpu);
  return op.call(g, order, inverse);
}
Two call_join(const Tensor& out, const Tensor& log_sum, const Tensor& order,
              const Tensor& inverse) {
  static const auto op = handle("longbow::join_orders", &join_on_cpu);
  return op.call(out, log_sum, order, inverse);
}
Two call_join_backward(const Tensor& dout, const Tensor& dlog_sum, const Tensor& out,
                       const Tensor& log_sum, const Tensor& order, const Tensor& inverse) {
  static const auto op = handle("longbow::join_orders_backward", &join_backward_on_cpu);
  return op.call(dout, dlog_sum, out, log_sum, order, inverse);
}

// The sum over the places where a token stands.
struct Gradient : Differentiable {
  explicit Gradient(int64_t given) : places(given) {}
  const int64_t places;

  TensorVector forward(const TensorVector& inputs) override {
    save({inputs[1], inputs[2]});
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(inputs[0], inputs[1], inputs[2], places)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "in_orders has no second derivative");
    const auto kept = saved();
    return {call_backward(gradients[0], kept[0], kept[1]), Tensor(), Tensor()};
  }
};

struct JoinGradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    save(inputs);
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, log_sum] = call_join(inputs[0], inputs[1], inputs[2], inputs[3]);
    return {out, log_sum};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "join_orders has no second derivative");
    const auto kept = saved();
    const auto [dout, dlog_sum] =
        call_join_backward(gradients[0], gradients[1], kept[0], kept[1], kept[2], kept[3]);
    return {dout, dlog_sum, Tensor(), Tensor()};
  }
};

Tensor with_gradient(const Tensor& x, const Tensor& order, const Tensor& inverse, int64_t places) {
  if (wants_gradient(x)) return applied<Gradient>({x, order, inverse}, places)[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(x, order, inverse, places);
}
Tensor backward_with_gradient(const Tensor& g, const Tensor& order, const Tensor& inverse) {
  TORCH_CHECK(!wants_gradient(g), "in_orders has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(g, order, inverse);
}
Two join_with_gradient(const Tensor& out, const Tensor& log_sum, const Tensor& order,
                       const Tensor& inverse) {
  if (wants_gradient(out, log_sum)) {
    const auto found = applied<JoinGradient>({out, log_sum, order, inverse});
    return {found[0], found[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_join(out, log_sum, order, inverse);
}
Two join_backward_with_gradient(const Tensor& dout, const Tensor& dlog_sum, const Tensor& out,
                                const Tensor& log_sum, const Tensor& order, const Tensor& inverse) {
  TORCH_CHECK(!wants_gradient(dout, dlog_sum, out, log_sum),
              "join_orders has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_join_backward(dout, dlog_sum, out, log_sum, order, inverse);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("in_orders(Tensor x, Tensor order, Tensor inverse, int places) -> Tensor");
  m.def("in_orders_backward(Tensor g, Tensor order, Tensor inverse) -> Tensor");
  m.def(
      "join_orders(Tensor out, Tensor log_sum, Tensor order, Tensor inverse) -> (Tensor out, "
      "Tensor log_sum)");
  m.def(
      "join_orders_backward(Tensor dout, Tensor dlog_sum, Tensor out, Tensor log_sum, Tensor "
      "order, Tensor inverse) -> (Tensor dout, Tensor dlog_sum)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("in_orders", on_cpu);
  m.impl("in_orders_backward", backward_on_cpu);
  m.impl("join_orders", join_on_cpu);
  m.impl("join_orders_backward", join_backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("in_orders", on_meta);
  m.impl("in_orders_backward", backward_on_meta);
  m.impl("join_orders", join_on_meta);
  m.impl("join_orders_backward", join_backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("in_orders", with_gradient);
  m.impl("in_orders_backward", backward_with_gradient);
  m.impl("join_orders", join_with_gradient);
  m.impl("join_orders_backward", join_backward_with_gradient);
}

void check(const char* name, const Orders& orders) {
  TORCH_CHECK(orders.order.dim() == 4 && orders.order.sizes() == orders.inverse.sizes(), name,
              ": orders are ", orders.order.sizes(), ", inverse ", orders.inverse.sizes());
}

}  // namespace

Tensor in_orders(const Tensor& x, const Orders& orders, int64_t places) {
  check("in_orders", orders);
  const auto& order = orders.order;
  TORCH_CHECK(x.dim() == 4 && x.size(0) == order.size(0) && x.size(1) == order.size(1) &&
                  x.size(2) == order.size(3) && places >= order.size(3),
              "in_orders: x is ", x.sizes(), " in ", places, " places, but orders are ",
              order.sizes());
  return call(x, order, orders.inverse, places);
}

SoftmaxPart join_orders(const SoftmaxPart& parts, const Orders& orders) {
  check("join_orders", orders);
  const auto& order = orders.order;
  const auto& out = parts.out;
  TORCH_CHECK(out.dim() == 5 && out.sizes().slice(0, 3) == order.sizes().slice(0, 3) &&
                  out.size(3) >= order.size(3) &&
                  parts.log_sum.sizes() == out.narrow(4, 0, 1).sizes(),
              "join_orders: parts of ", out.sizes(), " and ", parts.log_sum.sizes(),
              ", but orders are ", order.sizes());
  const auto [mean, log_sum] = call_join(out, parts.log_sum, order, orders.inverse);
  return {mean, log_sum};
}

}  // namespace longbow
