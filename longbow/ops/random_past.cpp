#include "longbow/ops/random_past.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <cmath>
#include <optional>
#include <tuple>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {

using at::Tensor;

PastRows::PastRows(const Tensor& queries, const Tensor& keys, const Tensor& values,
                   const RandomProduct& given, int64_t behind)
    : how(given) {
  const int64_t rest = queries.size(2) - behind;
  q = queries.narrow(2, behind, rest);
  k = keys.narrow(2, 0, rest);
  v = values.narrow(2, 0, rest);
  how.causal = true;
  if (how.keep.defined()) how.keep = how.keep.narrow(1, 0, rest);
}

SoftmaxPart random_past_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                                const RandomProduct& how, int64_t behind) {
  const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (behind >= q.size(2))
    return {at::zeros({q.size(0), q.size(1), q.size(2), v.size(3)}, v.options()),
            at::full({q.size(0), q.size(1), q.size(2), 1}, -INFINITY, q.options().dtype(type))};
  const PastRows rows(q, k, v, how, behind);
  const auto lower = [&](const Tensor& x, double first) {
    return at::constant_pad_nd(x, {0, 0, behind, 0}, first);
  };
  return {lower(random_product_formula(rows.q, rows.k, rows.v, rows.how), 0),
          lower(random_log_sum(rows.q, rows.k, rows.v, rows.how), -INFINITY)};
}

std::array<Tensor, 3> random_past_gradient(const SoftmaxPart& gradient, const Tensor& q,
                                           const Tensor& k, const Tensor& v,
                                           const RandomProduct& how, int64_t behind) {
  if (behind >= q.size(2)) return {at::zeros_like(q), at::zeros_like(k), at::zeros_like(v)};
  const PastRows rows(q, k, v, how, behind);
  const int64_t rest = q.size(2) - behind;
  const auto [dq, dk, dv, dsigma] =
      random_product_gradient(gradient.out.narrow(2, behind, rest), rows.q, rows.k, rows.v,
                              rows.how, gradient.log_sum.narrow(2, behind, rest));
  const auto padded = [](const Tensor& x, int64_t before, int64_t after) {
    return at::constant_pad_nd(x, {0, 0, before, after});
  };
  return {padded(dq, behind, 0), padded(dk, 0, behind), padded(dv, 0, behind)};
}

namespace {

using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

RandomProduct way_of(const Tensor& omega, const Maybe& keep, double scale) {
  return {.omega = omega, .scale = scale, .keep = keep.value_or(Tensor()), .causal = true};
}

Three on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
             const Maybe& keep, double scale, int64_t behind) {
  const auto part = random_past_formula(q, k, v, way_of(omega, keep, scale), behind);
  return {part.out, part.log_sum, at::empty({0}, q.options())};
}
Three backward_on_cpu(const Tensor& g, const Tensor& dlog_sum, const Tensor& q, const Tensor& k,
                      const Tensor& v, const Tensor& omega, const Maybe& keep, const Tensor&,
                      double scale, int64_t behind) {
  const auto [dq, dk, dv] =
      random_past_gradient({g, dlog_sum}, q, k, v, way_of(omega, keep, scale), behind);
  return {dq, dk, dv};
}

Three on_meta(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, const Maybe&, double,
              int64_t) {
  const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, v.options()),
          at::empty({q.size(0), q.size(1), q.size(2), 1}, q.options().dtype(type)),
          at::empty({0}, q.options())};
}
Three backward_on_meta(const Tensor&, const Tensor&, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor&, const Maybe&, const Tensor&, double,
                       int64_t) {
  return {at::empty_like(q), at::empty_like(k), at::empty_like(v)};
}

Three call(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
           const Maybe& keep, double scale, int64_t behind) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::random_past", "")
                             .typed<decltype(on_cpu)>();
  return op.call(q, k, v, omega, keep, scale, behind);
}
Three call_backward(const Tensor& g, const Tensor& dlog_sum, const Tensor& q, const Tensor& k,
                    const Tensor& v, const Tensor& omega, const Maybe& keep, const Tensor& kept,
                    double scale, int64_t behind) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::random_past_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(g, dlog_sum, q, k, v, omega, keep, kept, scale, behind);
}

struct Gradient : Differentiable {
  Gradient(const Tensor& matrices, const Maybe& real, double factor, int64_t apart)
      : omega(matrices), keep(real), scale(factor), behind(apart) {}
  Tensor omega;  // until the forward pass has them
  Maybe keep;
  double scale;
  int64_t behind;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, log_sum, kept] =
        call(inputs[0], inputs[1], inputs[2], omega, keep, scale, behind);
    save({inputs[0], inputs[1], inputs[2], kept, omega, keep.value_or(Tensor())});
    omega = Tensor();
    keep.reset();
    no_gradient_of({kept});
    return {out, log_sum, kept};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "random_past has no second derivative");
    const auto past = saved();
    const auto real = past[5].defined() ? Maybe(past[5]) : Maybe();
    const auto [dq, dk, dv] = call_backward(gradients[0], gradients[1], past[0], past[1], past[2],
                                            past[4], real, past[3], scale, behind);
    return {dq, dk, dv};
  }
};

Three with_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                    const Maybe& keep, double scale, int64_t behind) {
  if (!wants_gradient(q, k, v)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(q, k, v, omega, keep, scale, behind);
  }
  const auto found = applied<Gradient>({q, k, v}, omega, keep, scale, behind);
  return {found[0], found[1], found[2]};
}
Three backward_with_gradient(const Tensor& g, const Tensor& dlog_sum, const Tensor& q,
                             const Tensor& k, const Tensor& v, const Tensor& omega,
                             const Maybe& keep, const Tensor& kept, double scale, int64_t behind) {
  TORCH_CHECK(!wants_gradient(g, dlog_sum, q, k, v), "random_past has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(g, dlog_sum, q, k, v, omega, keep, kept, scale, behind);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "random_past(Tensor q, Tensor k, Tensor v, Tensor omega, Tensor? keep, float scale, int "
      "behind) -> (Tensor out, Tensor log_sum, Tensor kept)");
  m.def(
      "random_past_backward(Tensor g, Tensor dlog_sum, Tensor q, Tensor k, Tensor v, Tensor omega, "
      "Tensor? keep, Tensor kept, float scale, int behind) -> (Tensor dq, Tensor dk, Tensor dv)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("random_past", on_cpu);
  m.impl("random_past_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("random_past", on_meta);
  m.impl("random_past_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("random_past", with_gradient);
  m.impl("random_past_backward", backward_with_gradient);
}

}  // namespace

SoftmaxPart random_past(const Tensor& q, const Tensor& k, const Tensor& v, const RandomProduct& how,
                        int64_t behind) {
  auto causal = how;
  causal.causal = true;
  check_random_product(q, k, v, causal);
  TORCH_CHECK(how.map == RandomMap::exponential && !how.least.defined(),
              "random_past: takes the exponential map and no least");
  TORCH_CHECK(behind >= 0, "random_past: behind is ", behind);
  const auto [out, log_sum, kept] =
      call(q, k, v, how.omega, how.keep.defined() ? Maybe(how.keep) : Maybe(), how.scale, behind);
  return {out, log_sum};
}

}  // namespace longbow
