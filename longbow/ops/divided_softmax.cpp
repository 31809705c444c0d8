#include "longbow/ops/divided_softmax.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <torch/library.h>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/divided_softmax_formula.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

at::ScalarType wide(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// n, or 1.
Tensor bounded(const Tensor& scores, const MaybeDivisor& divisor, double least) {
  return divisor ? divisor->to(wide(scores)).clamp_min(least)
                 : at::ones({1, 1, 1, 1}, scores.options().dtype(wide(scores)));
}

Tensor on_meta(const Tensor& scores, const MaybeDivisor&, double, double) {
  return at::empty_like(scores);
}
Two backward_on_meta(const Tensor&, const Tensor& scores, const MaybeDivisor& divisor, double,
                     double, bool wanted) {
  return {at::empty_like(scores),
          wanted ? at::empty_like(*divisor) : at::empty({0}, scores.options())};
}

Tensor call(const Tensor& scores, const MaybeDivisor& divisor, double least, double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::divided_softmax", "")
                             .typed<decltype(divided_softmax_by_aten)>();
  return op.call(scores, divisor, least, scale);
}
Two call_backward(const Tensor& gradient, const Tensor& scores, const MaybeDivisor& divisor,
                  double least, double scale, bool wanted) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::divided_softmax_backward", "")
                             .typed<decltype(divided_softmax_backward_by_aten)>();
  return op.call(gradient, scores, divisor, least, scale, wanted);
}
MaybeDivisor maybe(const Tensor& divisor) {
  return divisor.defined() ? MaybeDivisor(divisor) : std::nullopt;
}

// Forms the weights again.
struct Gradient : Differentiable {
  Gradient(double smallest, double factor) : least(smallest), scale(factor) {}
  const double least, scale;

  TensorVector forward(const TensorVector& inputs) override {
    save(inputs);
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(inputs[0], maybe(inputs[1]), least, scale)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    const bool wanted = kept[1].defined() && wants_gradient_of(1);
    const auto [dscores, ddivisor] =
        call_backward(gradients[0], kept[0], maybe(kept[1]), least, scale, wanted);
    return {dscores, wanted ? ddivisor : Tensor()};
  }
};

Tensor with_gradient(const Tensor& scores, const MaybeDivisor& divisor, double least,
                     double scale) {
  const auto by = divisor.value_or(Tensor());
  if (wants_gradient(scores, by)) return applied<Gradient>({scores, by}, least, scale)[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(scores, divisor, least, scale);
}
Two backward_with_gradient(const Tensor& gradient, const Tensor& scores,
                           const MaybeDivisor& divisor, double least, double scale, bool wanted) {
  if (wants_gradient(gradient, scores, divisor.value_or(Tensor())))
    return divided_softmax_backward_by_aten(gradient, scores, divisor, least, scale, wanted);
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(gradient, scores, divisor, least, scale, wanted);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("divided_softmax(Tensor scores, Tensor? divisor, float least, float scale) -> Tensor");
  m.def(
      "divided_softmax_backward(Tensor gradient, Tensor scores, Tensor? divisor, float least, "
      "float scale, bool wanted) -> (Tensor dscores, Tensor ddivisor)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("divided_softmax", divided_softmax_by_aten);
  m.impl("divided_softmax_backward", divided_softmax_backward_by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("divided_softmax", on_meta);
  m.impl("divided_softmax_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("divided_softmax", with_gradient);
  m.impl("divided_softmax_backward", backward_with_gradient);
}

}  // namespace

Tensor divided_softmax_by_aten(const Tensor& scores, const MaybeDivisor& divisor, double least,
                               double scale) {
  const auto n = bounded(scores, divisor, least);
  return ((scores / n * scale).softmax(-1) / n).to(scores.scalar_type());
}

// With the gradient g of p = softmax(s / n) for s = scale scores, and that of its argument,
// a = p (g - p . g): ds = a / n, dn = -(a s / n + g p) / n.
Two divided_softmax_backward_by_aten(const Tensor& gradient, const Tensor& scores,
                                     const MaybeDivisor& divisor, double least, double scale,
                                     bool wanted) {
  const auto n = bounded(scores, divisor, least);
  const auto s = scores / n * scale, p = s.softmax(-1), g = gradient / n;
  const auto a = p * (g - (p * g).sum(-1, true));
  const auto dscores = (a / n * scale).to(scores.scalar_type());
  if (!wanted) return {dscores, at::empty({0}, scores.options())};
  const auto dn = -(a * s + g * p) / n;
  return {dscores, at::sum_to(dn.masked_fill(divisor->lt(least), 0), divisor->sizes())
                       .to(divisor->scalar_type())};
}

Tensor divided_softmax_formula(const Tensor& scores, const Tensor& divisor, double least,
                               double scale) {
  return divided_softmax_by_aten(scores, maybe(divisor), least, scale);
}

Tensor divided_softmax(const Tensor& scores, const Tensor& divisor, double least, double scale) {
  TORCH_CHECK(scores.dim() == 4 && scores.is_floating_point(), "divided_softmax: scores are ",
              scores.sizes(), " ", scores.scalar_type());
  TORCH_CHECK(!divisor.defined() || (divisor.dim() == 4 && divisor.is_floating_point() &&
                                     at::is_expandable_to(divisor.sizes(), scores.sizes())),
              "divided_softmax: scores are ", scores.sizes(), ", the divisor ", divisor.sizes(),
              " ", divisor.scalar_type());
  return call(scores, maybe(divisor), least, scale);
}

}  // namespace longbow
