#include "longbow/ops/log_gate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;

at::ScalarType wide(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Tensor on_meta(const Tensor& logit, double) {
  return at::empty(logit.sizes(), logit.options().dtype(wide(logit)));
}
Tensor backward_on_meta(const Tensor&, const Tensor& logit, double) {
  return at::empty(logit.sizes(), logit.options());
}

Tensor call(const Tensor& logit, double divisor) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::log_gate", "")
                             .typed<Tensor(const Tensor&, double)>();
  return op.call(logit, divisor);
}
Tensor call_backward(const Tensor& dout, const Tensor& logit, double divisor) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::log_gate_backward", "")
                             .typed<Tensor(const Tensor&, const Tensor&, double)>();
  return op.call(dout, logit, divisor);
}

// That of the kernels.
struct Gradient : Differentiable {
  explicit Gradient(double by) : divisor(by) {}
  const double divisor;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call(inputs[0], divisor)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "log_gate has no second derivative here");
    return {call_backward(gradients[0], saved()[0], divisor)};
  }
};

// The formula is recorded as it is.
Tensor with_gradient(const Tensor& logit, double divisor) {
  if (!has_log_gate_kernel(logit)) return log_gate_formula(logit, divisor);
  if (wants_gradient(logit)) return applied<Gradient>({logit}, divisor)[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(logit, divisor);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("log_gate(Tensor logit, float divisor) -> Tensor");
  m.def("log_gate_backward(Tensor dout, Tensor logit, float divisor) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("log_gate", log_gate_formula);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("log_gate", on_meta);
  m.impl("log_gate_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("log_gate", with_gradient);
}

}  // namespace

Tensor log_gate(const Tensor& logit, double divisor) {
  return call(logit, divisor);
}

bool has_log_gate_kernel(const Tensor& logit) {
  return logit.is_cuda() && logit.scalar_type() == at::kBFloat16 && logit.numel() > 0 &&
         logit.numel() % 8 == 0;
}

Tensor log_gate_formula(const Tensor& logit, double divisor) {
  return at::log_sigmoid(logit.to(wide(logit))) / divisor;
}

}  // namespace longbow
