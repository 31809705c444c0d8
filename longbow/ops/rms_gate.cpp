#include "longbow/ops/rms_gate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/rms_gate.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Maybe optional(const Tensor& x) {
  return x.defined() ? Maybe(x) : std::nullopt;
}

Tensor on_cpu(const Tensor& x, const Tensor& gain, const Maybe& gate, double epsilon,
              at::ScalarType type) {
  return rms_gate_formula(x, gain, gate.value_or(Tensor()), epsilon).to(type);
}
// Of x, gain and gate; the last one is empty where there is none.
Three backward_on_cpu(const Tensor& dy, const Tensor& x, const Tensor& gain, const Maybe& gate,
                      double epsilon) {
  const auto d = rms_gate_formula_backward(dy, x, gain, gate.value_or(Tensor()), epsilon);
  return {d.x, d.gain, d.gate.defined() ? d.gate : at::empty({0}, gain.options())};
}
Tensor on_meta(const Tensor& x, const Tensor&, const Maybe&, double, at::ScalarType type) {
  return at::empty(x.sizes(), x.options().dtype(type));
}
Three backward_on_meta(const Tensor&, const Tensor& x, const Tensor& gain, const Maybe& gate,
                       double) {
  return {at::empty_like(x), at::empty_like(gain), at::empty_like(gate ? *gate : gain)};
}

Tensor call(const Tensor& x, const Tensor& gain, const Maybe& gate, double epsilon,
            at::ScalarType type) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::rms_gate", "")
                             .typed<decltype(on_cpu)>();
  return op.call(x, gain, gate, epsilon, type);
}
Three call_backward(const Tensor& dy, const Tensor& x, const Tensor& gain, const Maybe& gate,
                    double epsilon) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::rms_gate_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(dy, x, gain, gate, epsilon);
}

struct Gradient : Differentiable {
  Gradient(double least, at::ScalarType wanted) : epsilon(least), type(wanted) {}
  const double epsilon;
  const at::ScalarType type;

  TensorVector forward(const TensorVector& inputs) override {
    save(inputs);
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(inputs[0], inputs[1], optional(inputs[2]), epsilon, type)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "rms_gate has no second derivative");
    const auto kept = saved();
    const auto [dx, dgain, dgate] =
        call_backward(gradients[0], kept[0], kept[1], optional(kept[2]), epsilon);
    return {dx, dgain, kept[2].defined() ? dgate : Tensor()};
  }
};

Tensor with_gradient(const Tensor& x, const Tensor& gain, const Maybe& gate, double epsilon,
                     at::ScalarType type) {
  if (!wants_gradient(x, gain, gate.value_or(Tensor()))) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(x, gain, gate, epsilon, type);
  }
  return applied<Gradient>({x, gain, gate.value_or(Tensor())}, epsilon, type)[0];
}
Three backward_with_gradient(const Tensor& dy, const Tensor& x, const Tensor& gain,
                             const Maybe& gate, double epsilon) {
  TORCH_CHECK(!wants_gradient(dy, x, gain), "rms_gate has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dy, x, gain, gate, epsilon);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("rms_gate(Tensor x, Tensor gain, Tensor? gate, float epsilon, ScalarType type) -> Tensor");
  m.def(
      "rms_gate_backward(Tensor dy, Tensor x, Tensor gain, Tensor? gate, float epsilon) -> (Tensor "
      "dx, Tensor dgain, Tensor dgate)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("rms_gate", on_cpu);
  m.impl("rms_gate_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("rms_gate", on_meta);
  m.impl("rms_gate_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("rms_gate", with_gradient);
  m.impl("rms_gate_backward", backward_with_gradient);
}

}  // namespace

Tensor rms_gate(const Tensor& x, const Tensor& gain, const Tensor& gate, double epsilon,
                at::ScalarType type) {
  const int64_t width = x.dim() > 0 ? x.size(-1) : 0;
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble, "rms_gate: x is ",
              x.scalar_type(), ", but needs float32 or float64");
  TORCH_CHECK(
      gain.dim() == 1 && gain.size(0) == width && (!gate.defined() || gate.sizes() == gain.sizes()),
      "rms_gate: x is ", x.sizes(), ", the gain ", gain.sizes(), ", the gate ",
      gate.defined() ? gate.sizes() : at::IntArrayRef());
  return call(x, gain, optional(gate), epsilon, type);
}

Tensor rms_gate_formula(const Tensor& x, const Tensor& gain, const Tensor& gate, double epsilon) {
  const auto type = x.scalar_type();
  const auto y = gain.to(type) * x / (x.square().mean(-1, true) + epsilon).sqrt();
  return gate.defined() ? y * (gate.to(type) * x).sigmoid() : y;
}

// As kernels/cuda/rms_gate.cu has it.
RmsGateGradients rms_gate_formula_backward(const Tensor& dy, const Tensor& x, const Tensor& gain,
                                           const Tensor& gate, double epsilon) {
  const auto type = x.scalar_type();
  const auto by_channel = [](const Tensor& t, const Tensor& like) {
    return t.flatten(0, -2).sum(0).to(like.scalar_type());
  };
  const auto g = dy.to(type), wide_gain = gain.to(type);
  const auto root = (x.square().mean(-1, true) + epsilon).rsqrt();
  const auto open = gate.defined() ? (gate.to(type) * x).sigmoid() : at::ones_like(x);
  const auto u = wide_gain * g * open;
  auto dx = root * u - x * root.pow(3) * (u * x).mean(-1, true);
  Tensor dgate;
  if (gate.defined()) {
    const auto turning = u * x * root * (1 - open);
    dx = dx + turning * gate.to(type);
    dgate = by_channel(turning * x, gate);
  }
  return {dx, by_channel(g * open * x * root, gain), dgate};
}

bool has_rms_gate_kernel(const Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kFloat && x.numel() > 0 && x.size(-1) % 4 == 0 &&
         x.size(-1) <= kernels::kMostGatedWidth;
}

}  // namespace longbow
