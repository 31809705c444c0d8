#include "longbow/ops/normed_gate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/normed_gate.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

void check(const Tensor& x, const Maybe& other, const Tensor& gate, const Tensor& weight,
           int64_t groups) {
  TORCH_CHECK(gate.sizes() == x.sizes(), "normed_gate: x is ", x.sizes(), " but gate is ",
              gate.sizes());
  TORCH_CHECK(!other || other->sizes() == x.sizes(), "normed_gate: x is ", x.sizes(),
              " but what goes with it is ", other->sizes());
  TORCH_CHECK(weight.dim() == 1 && weight.size(0) == x.size(-1), "normed_gate: x is ", x.sizes(),
              " but weight is ", weight.sizes());
  TORCH_CHECK(groups > 0 && x.size(-1) % groups == 0, "normed_gate: ", x.size(-1), " channels in ",
              groups, " groups");
}

Tensor by_aten(const Tensor& x, const Maybe& other, const Tensor& gate, const Tensor& weight,
               int64_t groups, double epsilon) {
  check(x, other, gate, weight, groups);
  return normed_gate_formula(x, other.value_or(Tensor()), gate, weight, groups, epsilon);
}

Tensor on_meta(const Tensor& x, const Maybe& other, const Tensor& gate, const Tensor& weight,
               int64_t groups, double) {
  check(x, other, gate, weight, groups);
  return at::empty_like(x, {}, at::MemoryFormat::Contiguous);
}
Four backward_on_meta(const Tensor&, const Tensor& x, const Maybe& other, const Tensor& gate,
                      const Tensor& weight, int64_t, double) {
  return {at::empty_like(x), other ? at::empty_like(*other) : Tensor(), at::empty_like(gate),
          at::empty_like(weight)};
}

Maybe maybe(const Tensor& x) {
  return x.defined() ? Maybe(x) : Maybe();
}
Tensor call(const Tensor& x, const Tensor& other, const Tensor& gate, const Tensor& weight,
            int64_t groups, double epsilon) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::normed_gate", "")
                             .typed<decltype(by_aten)>();
  return op.call(x, maybe(other), gate, weight, groups, epsilon);
}
Four call_backward(const Tensor& dy, const Tensor& x, const Tensor& other, const Tensor& gate,
                   const Tensor& weight, int64_t groups, double epsilon) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::normed_gate_backward", "")
                             .typed<decltype(backward_on_meta)>();
  return op.call(dy, x, maybe(other), gate, weight, groups, epsilon);
}

// That of the kernels.
struct Gradient : Differentiable {
  Gradient(int64_t parts, double added) : groups(parts), epsilon(added) {}
  const int64_t groups;
  const double epsilon;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call(inputs[0], inputs[1], inputs[2], inputs[3], groups, epsilon)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "normed_gate has no second derivative here");
    const auto kept = saved();
    const auto [dx, dother, dgate, dweight] =
        call_backward(gradients[0], kept[0], kept[1], kept[2], kept[3], groups, epsilon);
    return {dx, dother, dgate, dweight};
  }
};

// The formula is recorded as it is.
Tensor with_gradient(const Tensor& x, const Maybe& other, const Tensor& gate, const Tensor& weight,
                     int64_t groups, double epsilon) {
  check(x, other, gate, weight, groups);
  const auto second = other.value_or(Tensor());
  if (!has_normed_gate_kernel(x, second, gate, groups))
    return by_aten(x, other, gate, weight, groups, epsilon);
  if (!wants_gradient(x, second, gate, weight)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(x, second, gate, weight, groups, epsilon);
  }
  return applied<Gradient>({x, second, gate, weight}, groups, epsilon)[0];
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "normed_gate(Tensor x, Tensor? other, Tensor gate, Tensor weight, int groups, "
      "float epsilon) -> Tensor");
  m.def(
      "normed_gate_backward(Tensor dy, Tensor x, Tensor? other, Tensor gate, Tensor weight, "
      "int groups, float epsilon) -> "
      "(Tensor dx, Tensor dother, Tensor dgate, Tensor dweight)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("normed_gate", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("normed_gate", on_meta);
  m.impl("normed_gate_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("normed_gate", with_gradient);
}

}  // namespace

Tensor normed_gate(const Tensor& x, const Tensor& other, const Tensor& gate, const Tensor& weight,
                   int64_t groups, double epsilon) {
  return call(x, other, gate, weight, groups, epsilon);
}

bool has_normed_gate_kernel(const Tensor& x, const Tensor& other, const Tensor& gate,
                            int64_t groups) {
  constexpr int64_t kMostGroups = 65535;
  for (const auto& t : {x, other, gate})
    if (t.defined() && (!t.is_cuda() || t.scalar_type() != at::kBFloat16 || t.numel() == 0))
      return false;
  return groups <= kMostGroups && kernels::normed_gate_fits(x.size(-1) / groups);
}

Tensor normed_gate_formula(const Tensor& x, const Tensor& other, const Tensor& gate,
                           const Tensor& weight, int64_t groups, double epsilon) {
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto factor = at::silu(gate.to(type));
  const auto normed = [&](const Tensor& t) {
    const auto rows = (t.to(type) * factor).unflatten(-1, {groups, -1});
    return rows * (rows.square().mean(-1, true) + epsilon).rsqrt();
  };
  const auto sum = other.defined() ? normed(x) + normed(other) : normed(x);
  return (sum.flatten(-2) * weight.to(type)).to(x.scalar_type());
}

}  // namespace longbow
