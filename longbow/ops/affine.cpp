#include "longbow/ops/affine.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>

#include "longbow/ops/gradient.h"
#include "longbow/ops/row_sum.h"

namespace longbow {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext, torch::autograd::variable_list;

void check(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  TORCH_CHECK(x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == weight.size(1), "affine: x is ",
              x.sizes(), " but weight is ", weight.sizes());
  TORCH_CHECK(!bias || (bias->dim() == 1 && bias->size(0) == weight.size(0)), "affine: weight is ",
              weight.sizes(), " but bias is ", bias->sizes());
}

Tensor on_any_device(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  check(x, weight, bias);
  return at::linear(x, weight, bias);
}

Tensor call(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("longbow::affine", "")
          .typed<Tensor(const Tensor&, const Tensor&, const std::optional<Tensor>&)>();
  return op.call(x, weight, bias);
}

Tensor rows_of(const Tensor& x) {
  return x.dim() == 1 ? x.unsqueeze(0) : x.flatten(0, -2);
}

struct Gradient : torch::autograd::Function<Gradient> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["has_bias"] = bias.has_value();
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(x, weight, bias);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1];
    const auto dy = rows_of(gradients[0]);
    Tensor dx, dweight, dbias;
    if (context->needs_input_grad(0)) dx = dy.mm(weight).view(x.sizes());
    if (context->needs_input_grad(1)) dweight = dy.t().mm(rows_of(x));
    const bool has_bias = context->saved_data["has_bias"].toBool();
    if (has_bias && context->needs_input_grad(2)) dbias = row_sum(dy);
    return {dx, dweight, dbias};
  }
};

Tensor with_gradient(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  if (wants_gradient(x, weight, bias.value_or(Tensor()))) return Gradient::apply(x, weight, bias);
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(x, weight, bias);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("affine(Tensor x, Tensor weight, Tensor? bias) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("affine", on_any_device);
}
TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("affine", on_any_device);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("affine", on_any_device);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("affine", with_gradient);
}

}  // namespace

Tensor affine(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return call(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
}

}  // namespace longbow
