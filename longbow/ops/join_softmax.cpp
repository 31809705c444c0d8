#include "longbow/ops/join_softmax.h"

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
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// What each part has of the whole; zero where neither saw anything.
struct Shares {
  Tensor log_sum, a, b;
  Shares(const Tensor& log_a, const Tensor& log_b) : log_sum(at::logaddexp(log_a, log_b)) {
    const auto finite = log_sum.masked_fill(log_sum.isneginf(), 0);
    a = (log_a - finite).exp_();
    b = (log_b - finite).exp_();
  }
};

Two on_cpu(const Tensor& a, const Tensor& log_a, const Tensor& b, const Tensor& log_b) {
  const auto joined = join_softmax_formula({a, log_a}, {b, log_b});
  return {joined.out, joined.log_sum};
}

Four backward_on_cpu(const Tensor& dout, const Tensor& dlog_sum, const Tensor& a,
                     const Tensor& log_a, const Tensor& b, const Tensor& log_b) {
  const auto found = join_softmax_formula_backward({dout, dlog_sum}, {a, log_a}, {b, log_b});
  return {found.a.out, found.a.log_sum, found.b.out, found.b.log_sum};
}

Two on_meta(const Tensor& a, const Tensor& log_a, const Tensor&, const Tensor&) {
  return {at::empty_like(a), at::empty_like(log_a)};
}
Four backward_on_meta(const Tensor&, const Tensor&, const Tensor& a, const Tensor& log_a,
                      const Tensor& b, const Tensor& log_b) {
  return {at::empty_like(a), at::empty_like(log_a), at::empty_like(b), at::empty_like(log_b)};
}

Two call(const Tensor& a, const Tensor& log_a, const Tensor& b, const Tensor& log_b) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::join_softmax", "")
                             .typed<decltype(on_cpu)>();
  return op.call(a, log_a, b, log_b);
}
Four call_backward(const Tensor& dout, const Tensor& dlog_sum, const Tensor& a, const Tensor& log_a,
                   const Tensor& b, const Tensor& log_b) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::join_softmax_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(dout, dlog_sum, a, log_a, b, log_b);
}

struct Gradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    save(inputs);
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, log_sum] = call(inputs[0], inputs[1], inputs[2], inputs[3]);
    return {out, log_sum};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "join_softmax has no second derivative");
    const auto kept = saved();
    const auto [da, dlog_a, db, dlog_b] =
        call_backward(gradients[0], gradients[1], kept[0], kept[1], kept[2], kept[3]);
    return {da, dlog_a, db, dlog_b};
  }
};

Two with_gradient(const Tensor& a, const Tensor& log_a, const Tensor& b, const Tensor& log_b) {
  if (!wants_gradient(a, log_a, b, log_b)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(a, log_a, b, log_b);
  }
  const auto found = applied<Gradient>({a, log_a, b, log_b});
  return {found[0], found[1]};
}

Four backward_with_gradient(const Tensor& dout, const Tensor& dlog_sum, const Tensor& a,
                            const Tensor& log_a, const Tensor& b, const Tensor& log_b) {
  TORCH_CHECK(!wants_gradient(dout, dlog_sum, a, log_a, b, log_b),
              "join_softmax has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dout, dlog_sum, a, log_a, b, log_b);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "join_softmax(Tensor a, Tensor log_a, Tensor b, Tensor log_b) -> (Tensor out, Tensor "
      "log_sum)");
  m.def(
      "join_softmax_backward(Tensor dout, Tensor dlog_sum, Tensor a, Tensor log_a, Tensor b, "
      "Tensor log_b) -> (Tensor da, Tensor dlog_a, Tensor db, Tensor dlog_b)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("join_softmax", on_cpu);
  m.impl("join_softmax_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("join_softmax", on_meta);
  m.impl("join_softmax_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("join_softmax", with_gradient);
  m.impl("join_softmax_backward", backward_with_gradient);
}

}  // namespace

SoftmaxPart join_softmax(const SoftmaxPart& a, const SoftmaxPart& b) {
  TORCH_CHECK(a.out.sizes() == b.out.sizes() && a.log_sum.sizes() == b.log_sum.sizes(),
              "join_softmax: parts of ", a.out.sizes(), " and ", a.log_sum.sizes(), ", and of ",
              b.out.sizes(), " and ", b.log_sum.sizes());
  const auto [out, log_sum] = call(a.out, a.log_sum, b.out, b.log_sum);
  return {out, log_sum};
}

SoftmaxPart join_softmax_formula(const SoftmaxPart& a, const SoftmaxPart& b) {
  const Shares share(a.log_sum, b.log_sum);
  return {(share.a * a.out + share.b * b.out).to(a.out.scalar_type()), share.log_sum};
}

// With w the share of a part and g = dout: d out = w g, d log = w (g . out_a - g . out + dlog_sum).
JoinedGradients join_softmax_formula_backward(const SoftmaxPart& gradient, const SoftmaxPart& a,
                                              const SoftmaxPart& b) {
  const Shares share(a.log_sum, b.log_sum);
  const auto g = gradient.out.to(share.a.scalar_type());
  const auto of_a = (g * a.out).sum(-1, true), of_b = (g * b.out).sum(-1, true);
  const auto shift = gradient.log_sum - share.a * of_a - share.b * of_b;
  return {{(share.a * g).to(a.out.scalar_type()), share.a * (of_a + shift)},
          {(share.b * g).to(b.out.scalar_type()), share.b * (of_b + shift)}};
}

}  // namespace longbow
