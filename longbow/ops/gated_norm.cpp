#include "longbow/ops/gated_norm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/gated_norm.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Maybe maybe(const Tensor& x) {
  return x.defined() ? Maybe(x) : Maybe();
}

void check(const Tensor& x, const Maybe& other, const Maybe& gate, const Tensor& weight) {
  TORCH_CHECK(
      x.dim() >= 1 && weight.dim() == 1 && weight.size(0) > 0 && x.size(-1) % weight.size(0) == 0,
      "gated_norm: x is ", x.sizes(), " but weight is ", weight.sizes());
  for (const auto& t : {other, gate})
    TORCH_CHECK(!t || t->sizes() == x.sizes(), "gated_norm: x is ", x.sizes(),
                " but what goes with it is ", t->sizes());
}

Tensor by_aten(const Tensor& x, const Maybe& other, const Maybe& gate, const Tensor& weight,
               double epsilon) {
  check(x, other, gate, weight);
  return gated_norm_formula(x, other.value_or(Tensor()), gate.value_or(Tensor()), weight, epsilon);
}

Tensor on_meta(const Tensor& x, const Maybe& other, const Maybe& gate, const Tensor& weight,
               double) {
  check(x, other, gate, weight);
  return at::empty_like(x, {}, at::MemoryFormat::Contiguous);
}
Four backward_on_meta(const Tensor&, const Tensor& x, const Maybe& other, const Maybe& gate,
                      const Tensor& weight, double) {
  const auto like = [](const Maybe& t) { return t ? at::empty_like(*t) : Tensor(); };
  return {at::empty_like(x), like(other), like(gate), at::empty_like(weight)};
}

Tensor call(const Tensor& x, const Maybe& other, const Maybe& gate, const Tensor& weight,
            double epsilon) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::gated_norm", "")
                             .typed<decltype(by_aten)>();
  return op.call(x, other, gate, weight, epsilon);
}
Four call_backward(const Tensor& dy, const Tensor& x, const Maybe& other, const Maybe& gate,
                   const Tensor& weight, double epsilon) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::gated_norm_backward", "")
                             .typed<decltype(backward_on_meta)>();
  return op.call(dy, x, other, gate, weight, epsilon);
}

// That of the kernels.
struct Gradient : Differentiable {
  explicit Gradient(double added) : epsilon(added) {}
  const double epsilon;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call(inputs[0], maybe(inputs[1]), maybe(inputs[2]), inputs[3], epsilon)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "gated_norm has no second derivative here");
    const auto kept = saved();
    const auto [dx, dother, dgate, dweight] =
        call_backward(gradients[0], kept[0], maybe(kept[1]), maybe(kept[2]), kept[3], epsilon);
    return {dx, dother, dgate, dweight};
  }
};

// The formula is recorded as it is.
Tensor with_gradient(const Tensor& x, const Maybe& other, const Maybe& gate, const Tensor& weight,
                     double epsilon) {
  check(x, other, gate, weight);
  const auto second = other.value_or(Tensor()), factor = gate.value_or(Tensor());
  if (!has_gated_norm_kernel(x, second, factor, weight))
    return by_aten(x, other, gate, weight, epsilon);
  if (!wants_gradient(x, second, factor, weight)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(x, other, gate, weight, epsilon);
  }
  return applied<Gradient>({x, second, factor, weight}, epsilon)[0];
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "gated_norm(Tensor x, Tensor? other, Tensor? gate, Tensor weight, float epsilon) -> Tensor");
  m.def(
      "gated_norm_backward(Tensor dy, Tensor x, Tensor? other, Tensor? gate, Tensor weight, "
      "float epsilon) -> (Tensor dx, Tensor dother, Tensor dgate, Tensor dweight)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("gated_norm", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("gated_norm", on_meta);
  m.impl("gated_norm_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("gated_norm", with_gradient);
}

}  // namespace

Tensor gated_norm(const Tensor& x, const Tensor& other, const Tensor& gate, const Tensor& weight,
                  double epsilon) {
  return call(x, maybe(other), maybe(gate), weight, epsilon);
}

Tensor gated_norm_formula(const Tensor& x, const Tensor& other, const Tensor& gate,
                          const Tensor& weight, double epsilon) {
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto normed = [&](const Tensor& t) {
    const auto rows = t.to(type).unflatten(-1, {-1, weight.size(0)});
    return rows * (rows.square().mean(-1, true) + epsilon).rsqrt();
  };
  auto y = other.defined() ? normed(x) + normed(other) : normed(x);
  y = (y * weight.to(type)).flatten(-2);
  if (gate.defined()) y = y * at::silu(gate.to(type));
  return y.to(x.scalar_type());
}

bool has_gated_norm_kernel(const Tensor& x, const Tensor& other, const Tensor& gate,
                           const Tensor& weight) {
  for (const auto& t : {x, other, gate})
    if (t.defined() && (!t.is_cuda() || t.scalar_type() != at::kBFloat16 || t.numel() == 0))
      return false;
  return kernels::gated_norm_fits(weight.size(0));
}

}  // namespace longbow
