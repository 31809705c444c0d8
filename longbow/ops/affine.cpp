#include "longbow/ops/affine.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <vector>

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

// Whether each part begins where the one before it ends, in every row.
bool lie_beside(const TensorVector& parts) {
  const auto& first = parts.front();
  int64_t place = first.storage_offset();
  for (const auto& part : parts) {
    if (!part.is_alias_of(first) || part.strides() != first.strides() || part.stride(-1) != 1 ||
        part.storage_offset() != place)
      return false;
    place += part.size(-1);
  }
  return true;
}

// The gradient of all columns as matrices beside each other: as one, except where kernels read it
// in parts.
TensorVector columns_of(const TensorVector& parts, const Tensor& x, const Tensor& weight) {
  if (parts.size() == 1) return {rows_of(parts[0])};
  if (!at::GradMode::is_enabled() && lie_beside(parts)) {
    auto sizes = parts[0].sizes().vec();
    sizes.back() = weight.size(0);
    return {rows_of(parts[0].as_strided(sizes, parts[0].strides()))};
  }
  TensorVector rows;
  for (const auto& part : parts) rows.push_back(rows_of(part));
  const bool kernels = !at::GradMode::is_enabled() &&
                       has_rows_kernel(rows, weight, Factor::plain) && has_columns_kernel(rows, x);
  return kernels ? rows : TensorVector{at::cat(rows, -1)};
}

struct Gradient : Differentiable {
  explicit Gradient(at::IntArrayRef given = {}) : widths(given.vec()) {}
  const std::vector<int64_t> widths;  // of the parts, or none

  TensorVector forward(const TensorVector& inputs) override {
    const auto &x = inputs[0], &weight = inputs[1], &bias = inputs[2];
    save({x, weight});
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto y = affine(x, weight, bias);
    return widths.empty() ? TensorVector{y} : y.split_with_sizes(widths, -1);
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    const auto &x = kept[0], &weight = kept[1];
    const auto rows = rows_of(x);
    const auto parts = columns_of(gradients, rows, weight);
    const auto& dy = parts[0];  // the only one, where there are no kernels
    const bool kernels = !at::GradMode::is_enabled();
    Tensor dx, dweight, dbias;
    if (wants_gradient_of(0)) {
      const bool kernel = kernels && has_rows_kernel(parts, weight, Factor::plain);
      dx = (kernel ? rows_product(parts, weight, Factor::plain) : dy.mm(weight)).view(x.sizes());
    }
    if (kernels && has_columns_kernel(parts, rows) && wants_gradient_of(1)) {
      std::tie(dweight, dbias) = columns_product(parts, rows);
      return {dx, dweight, wants_gradient_of(2) ? dbias : Tensor()};
    }
    if (wants_gradient_of(1)) dweight = dy.t().mm(rows);
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

std::vector<Tensor> affine_parts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 at::IntArrayRef widths) {
  if (wants_gradient(x, weight, bias)) return applied<Gradient>({x, weight, bias}, widths);
  return affine(x, weight, bias).split_with_sizes(widths, -1);
}

}  // namespace longbow
