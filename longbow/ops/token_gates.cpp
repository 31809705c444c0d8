#include "longbow/ops/token_gates.h"

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
using Three = std::tuple<Tensor, Tensor, Tensor>;

void check(const char* op, const char* name, const Tensor& x, const Tensor& other) {
  TORCH_CHECK(x.sizes() == other.sizes() && x.scalar_type() == other.scalar_type(), op, ": x is ",
              x.sizes(), " ", x.scalar_type(), " but ", name, " is ", other.sizes(), " ",
              other.scalar_type());
}
void check_product(const Tensor& x, const Tensor& gate) {
  check("silu_product", "gate", x, gate);
}
void check_step(const Tensor& x, const Tensor& update, const Tensor& candidate,
                const Tensor& added) {
  check("gated_step", "update", x, update);
  check("gated_step", "candidate", x, candidate);
  check("gated_step", "added", x, added);
}

Tensor like(const Tensor& x) {
  return at::empty_like(x, {}, at::MemoryFormat::Contiguous);
}
Tensor product_by_aten(const Tensor& x, const Tensor& gate) {
  check_product(x, gate);
  return silu_product_formula(x, gate);
}
Tensor step_by_aten(const Tensor& x, const Tensor& update, const Tensor& candidate,
                    const Tensor& added) {
  check_step(x, update, candidate, added);
  return gated_step_formula(x, update, candidate, added);
}
Tensor product_on_meta(const Tensor& x, const Tensor& gate) {
  check_product(x, gate);
  return like(x);
}
Tensor step_on_meta(const Tensor& x, const Tensor& update, const Tensor& candidate,
                    const Tensor& added) {
  check_step(x, update, candidate, added);
  return like(x);
}
Two product_backward_on_meta(const Tensor&, const Tensor& x, const Tensor&) {
  return {like(x), like(x)};
}
Three step_backward_on_meta(const Tensor&, const Tensor& x, const Tensor&, const Tensor&,
                            const Tensor&) {
  return {like(x), like(x), like(x)};
}

template <class Function>
auto operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}
Tensor call_product(const Tensor& x, const Tensor& gate) {
  static const auto op = operator_named<decltype(product_by_aten)>("longbow::silu_product");
  return op.call(x, gate);
}
Tensor call_step(const Tensor& x, const Tensor& update, const Tensor& candidate,
                 const Tensor& added) {
  static const auto op = operator_named<decltype(step_by_aten)>("longbow::gated_step");
  return op.call(x, update, candidate, added);
}

// Those of the kernels.
struct ProductGradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call_product(inputs[0], inputs[1])};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "silu_product has no second derivative here");
    static const auto op =
        operator_named<decltype(product_backward_on_meta)>("longbow::silu_product_backward");
    const auto kept = saved();
    const auto [dx, dgate] = op.call(gradients[0], kept[0], kept[1]);
    return {dx, dgate};
  }
};
struct StepGradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call_step(inputs[0], inputs[1], inputs[2], inputs[3])};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "gated_step has no second derivative here");
    static const auto op =
        operator_named<decltype(step_backward_on_meta)>("longbow::gated_step_backward");
    const auto kept = saved();
    const auto [dx, dupdate, dcandidate] =
        op.call(gradients[0], kept[0], kept[1], kept[2], kept[3]);
    return {dx, dupdate, dcandidate, dcandidate};
  }
};

// The formulas are recorded as they are.
Tensor product_with_gradient(const Tensor& x, const Tensor& gate) {
  if (!has_gate_kernel(x)) return product_by_aten(x, gate);
  if (wants_gradient(x, gate)) return applied<ProductGradient>({x, gate})[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_product(x, gate);
}
Tensor step_with_gradient(const Tensor& x, const Tensor& update, const Tensor& candidate,
                          const Tensor& added) {
  if (!has_gate_kernel(x)) return step_by_aten(x, update, candidate, added);
  if (wants_gradient(x, update, candidate, added))
    return applied<StepGradient>({x, update, candidate, added})[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_step(x, update, candidate, added);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("silu_product(Tensor x, Tensor gate) -> Tensor");
  m.def("silu_product_backward(Tensor dy, Tensor x, Tensor gate) -> (Tensor dx, Tensor dgate)");
  m.def("gated_step(Tensor x, Tensor update, Tensor candidate, Tensor added) -> Tensor");
  m.def(
      "gated_step_backward(Tensor dy, Tensor x, Tensor update, Tensor candidate, Tensor added) -> "
      "(Tensor dx, Tensor dupdate, Tensor dcandidate)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("silu_product", product_by_aten);
  m.impl("gated_step", step_by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("silu_product", product_on_meta);
  m.impl("silu_product_backward", product_backward_on_meta);
  m.impl("gated_step", step_on_meta);
  m.impl("gated_step_backward", step_backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("silu_product", product_with_gradient);
  m.impl("gated_step", step_with_gradient);
}

}  // namespace

Tensor silu_product(const Tensor& x, const Tensor& gate) {
  check_product(x, gate);
  return call_product(x, gate);
}
Tensor gated_step(const Tensor& x, const Tensor& update, const Tensor& candidate,
                  const Tensor& added) {
  check_step(x, update, candidate, added);
  return call_step(x, update, candidate, added);
}

bool has_gate_kernel(const Tensor& x) {
  return x.is_cuda() && (x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf) &&
         x.dim() > 0 && x.numel() > 0 && x.size(-1) % 8 == 0;
}

Tensor silu_product_formula(const Tensor& x, const Tensor& gate) {
  return x * at::silu(gate);
}
Tensor gated_step_formula(const Tensor& x, const Tensor& update, const Tensor& candidate,
                          const Tensor& added) {
  return update.sigmoid() * (at::silu(candidate + added) - x);
}

}  // namespace longbow
