#include "longbow/ops/affine.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/row_sum.h"
#include "longbow/ops/rows_product.h"

namespace longbow {
namespace {

using at::Tensor;

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

Tensor rows_of(const Tensor& x) {
  return x.dim() == 1 ? x.unsqueeze(0) : x.flatten(0, -2);
}

Tensor on_cpu(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  check(x, weight, bias);
  const auto rows = rows_of(x);
  const bool plain = !bias || bias->scalar_type() == at::kFloat;
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  // LibTorch would take rows that lie apart one sequence at a time.
  const auto y = plain && has_rows_kernel(rows, weight, Factor::transposed)
                     ? rows_product(rows, weight, Factor::transposed, bias.value_or(Tensor()))
                     : at::linear(rows, weight, bias);
  return y.view(sizes);
}

Tensor call(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("longbow::affine", "")
          .typed<Tensor(const Tensor&, const Tensor&, const std::optional<Tensor>&)>();
  return op.call(x, weight, bias);
}

struct Gradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    const auto &x = inputs[0], &weight = inputs[1], &bias = inputs[2];
    save({x, weight});
    const at::AutoDispatchBelowADInplaceOrView below;
    return {affine(x, weight, bias)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    const auto &x = kept[0], &weight = kept[1];
    const auto dy = rows_of(gradients[0]);
    Tensor dx, dweight, dbias;
    const bool kernel = !at::GradMode::is_enabled() && has_rows_kernel(dy, weight, Factor::plain);
    if (wants_gradient_of(0))
      dx = (kernel ? rows_product(dy, weight, Factor::plain) : dy.mm(weight)).view(x.sizes());
    if (const auto rows = rows_of(x);
        !at::GradMode::is_enabled() && has_columns_kernel(dy, rows) && wants_gradient_of(1)) {
      std::tie(dweight, dbias) = columns_product(dy, rows);
      return {dx, dweight, wants_gradient_of(2) ? dbias : Tensor()};
    }
    if (wants_gradient_of(1)) dweight = dy.t().mm(rows_of(x));
    if (wants_gradient_of(2)) dbias = row_sum(dy);
    return {dx, dweight, dbias};
  }
};

Tensor with_gradient(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  const auto given = bias.value_or(Tensor());
  if (wants_gradient(x, weight, given)) return applied<Gradient>({x, weight, given})[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(x, weight, bias);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("affine(Tensor x, Tensor weight, Tensor? bias) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("affine", on_cpu);
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
