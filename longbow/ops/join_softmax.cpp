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

// Each row `spread` times, of which `rows` are wanted; and back, the sum of what each row became.
SoftmaxPart spread_out(const SoftmaxPart& part, int64_t spread, int64_t rows) {
  if (spread == 1) return part;
  const auto each = [&](const Tensor& x) {
    return x.repeat_interleave(spread, -2).narrow(-2, 0, rows);
  };
  return {each(part.out), each(part.log_sum)};
}
SoftmaxPart gathered(const SoftmaxPart& part, int64_t spread, int64_t rows) {
  if (spread == 1) return part;
  const auto each = [&](const Tensor& x) {
    return at::constant_pad_nd(x, {0, 0, 0, rows * spread - x.size(-2)})
        .unflatten(-2, {rows, spread})
        .sum(-2);
  };
  return {each(part.out), each(part.log_sum)};
}

Two on_cpu(const Tensor& a, const Tensor& log_a, const Tensor& b, const Tensor& log_b,
           int64_t spread) {
  const auto joined = join_softmax_formula({a, log_a}, {b, log_b}, spread);
  return {joined.out, joined.log_sum};
}

Four backward_on_cpu(const Tensor& dout, const Tensor& dlog_sum, const Tensor& a,
                     const Tensor& log_a, const Tensor& b, const Tensor& log_b, int64_t spread) {
  const auto found =
      join_softmax_formula_backward({dout, dlog_sum}, {a, log_a}, {b, log_b}, spread);
  return {found.a.out, found.a.log_sum, found.b.out, found.b.log_sum};
}

Two on_meta(const Tensor& a, const Tensor& log_a, const Tensor&, const Tensor&, int64_t) {
  return {at::empty_like(a), at::empty_like(log_a)};
}
Four backward_on_meta(const Tensor&, const Tensor&, const Tensor& a, const Tensor& log_a,
                      const Tensor& b, const Tensor& log_b, int64_t) {
  return {at::empty_like(a), at::empty_like(log_a), at::empty_like(b), at::empty_like(log_b)};
}

Two call(const Tensor& a, const Tensor& log_a, const Tensor& b, const Tensor& log_b,
         int64_t spread) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::join_softmax", "")
                             .typed<decltype(on_cpu)>();
  return op.call(a, log_a, b, log_b, spread);
}
Four call_backward(const Tensor& dout, const Tensor& dlog_sum, const Tensor& a, const Tensor& log_a,
                   const Tensor& b, const Tensor& log_b, int64_t spread) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::join_softmax_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(dout, dlog_sum, a, log_a, b, log_b, spread);
}

struct Gradient : Differentiable {
  explicit Gradient(int64_t given) : spread(given) {}
  const int64_t spread;

  TensorVector forward(const TensorVector& inputs) override {
    save(inputs);
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, log_sum] = call(inputs[0], inputs[1], inputs[2], inputs[3], spread);
    return {out, log_sum};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "join_softmax has no second derivative");
    const auto kept = saved();
    const auto [da, dlog_a, db, dlog_b] =
        call_backward(gradients[0], gradients[1], kept[0], kept[1], kept[2], kept[3], spread);
    return {da, dlog_a, db, dlog_b};
  }
};

Two with_gradient(const Tensor& a, const Tensor& log_a, const Tensor& b, const Tensor& log_b,
                  int64_t spread) {
  if (!wants_gradient(a, log_a, b, log_b)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(a, log_a, b, log_b, spread);
  }
  const auto found = applied<Gradient>({a, log_a, b, log_b}, spread);
  return {found[0], found[1]};
}

Four backward_with_gradient(const Tensor& dout, const Tensor& dlog_sum, const Tensor& a,
                            const Tensor& log_a, const Tensor& b, const Tensor& log_b,
                            int64_t spread) {
  TORCH_CHECK(!wants_gradient(dout, dlog_sum, a, log_a, b, log_b),
              "join_softmax has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dout, dlog_sum, a, log_a, b, log_b, spread);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "join_softmax(Tensor a, Tensor log_a, Tensor b, Tensor log_b, int spread) -> (Tensor out, "
      "Tensor log_sum)");
  m.def(
      "join_softmax_backward(Tensor dout, Tensor dlog_sum, Tensor a, Tensor log_a, Tensor b, "
      "Tensor log_b, int spread) -> (Tensor da, Tensor dlog_a, Tensor db, Tensor dlog_b)");
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

SoftmaxPart join_softmax(const SoftmaxPart& a, const SoftmaxPart& b, int64_t spread) {
  const auto meet = [&](const Tensor& one, const Tensor& other) {
    auto sizes = one.sizes().vec();
    const int64_t rows = sizes[sizes.size() - 2], others = other.size(-2);
    sizes[sizes.size() - 2] = others;
    return other.sizes() == sizes && (spread == 1 ? others == rows : others * spread >= rows);
  };
  TORCH_CHECK(spread > 0 && meet(a.out, b.out) && meet(a.log_sum, b.log_sum),
              "join_softmax: parts of ", a.out.sizes(), " and ", a.log_sum.sizes(), ", and of ",
              b.out.sizes(), " and ", b.log_sum.sizes(), ", each row for ", spread);
  const auto [out, log_sum] = call(a.out, a.log_sum, b.out, b.log_sum, spread);
  return {out, log_sum};
}

SoftmaxPart join_softmax_formula(const SoftmaxPart& a, const SoftmaxPart& given, int64_t spread) {
  const auto b = spread_out(given, spread, a.out.size(-2));
  const Shares share(a.log_sum, b.log_sum);
  return {(share.a * a.out + share.b * b.out).to(a.out.scalar_type()), share.log_sum};
}

// With w the share of a part and g = dout: d out = w g, d log = w (g . out_a - g . out + dlog_sum).
JoinedGradients join_softmax_formula_backward(const SoftmaxPart& gradient, const SoftmaxPart& a,
                                              const SoftmaxPart& given, int64_t spread) {
  const auto b = spread_out(given, spread, a.out.size(-2));
  const Shares share(a.log_sum, b.log_sum);
  const auto g = gradient.out.to(share.a.scalar_type());
  const auto of_a = (g * a.out).sum(-1, true), of_b = (g * b.out).sum(-1, true);
  const auto shift = gradient.log_sum - share.a * of_a - share.b * of_b;
  const auto db = gathered({share.b * g, share.b * (of_b + shift)}, spread, given.out.size(-2));
  return {{(share.a * g).to(a.out.scalar_type()), share.a * (of_a + shift)},
          {db.out.to(b.out.scalar_type()), db.log_sum}};
}

}  // namespace longbow
