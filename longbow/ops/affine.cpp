#include "longbow/ops/affine.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <vector>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/row_parts.h"
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

// The gradient of all columns as matrices beside each other: as one, except where it is read in
// parts, by kernels on a CPU, or on a GPU where they are wide: then a product of each costs less
// than a copy of all, while narrow ones would leave most of the GPU idle.
TensorVector columns_of(const TensorVector& parts, const Tensor& x, const Tensor& weight) {
  const bool records = at::GradMode::is_enabled();
  TensorVector rows;
  for (const auto& part : records ? parts : joined_parts(parts)) rows.push_back(rows_of(part));
  if (rows.size() == 1) return rows;
  constexpr int64_t kWide = 256;  // columns of a part, on average
  const auto count = static_cast<int64_t>(rows.size());
  const bool apart = !records && (x.is_cuda() ? weight.size(0) >= count * kWide
                                              : has_rows_kernel(rows, weight, Factor::plain) &&
                                                    has_columns_kernel(rows, x));
  return apart ? rows : TensorVector{at::cat(rows, -1)};
}

// sum_i part_i weight_i, of the rows of the weight that made part i.
Tensor product_of(const TensorVector& parts, const Tensor& weight) {
  int64_t first = 0;
  Tensor sum;
  for (const auto& part : parts) {
    const auto own = weight.narrow(0, first, part.size(1));
    if (sum.defined())
      sum.addmm_(part, own);
    else
      sum = part.mm(own);
    first += part.size(1);
  }
  return sum;
}

// part_i^T x below each other.
Tensor products_with(const TensorVector& parts, const Tensor& x) {
  if (parts.size() == 1) return parts[0].t().mm(x);
  int64_t first = 0;
  for (const auto& part : parts) first += part.size(1);
  const auto all = at::empty({first, x.size(1)}, x.options());
  first = 0;
  for (const auto& part : parts) {
    auto own = all.narrow(0, first, part.size(1));
    at::mm_out(own, part.t(), x);
    first += part.size(1);
  }
  return all;
}

Tensor sums_of(const TensorVector& parts) {
  TensorVector sums;
  for (const auto& part : parts) sums.push_back(row_sum(part));
  return sums.size() == 1 ? sums[0] : at::cat(sums);
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
    const bool kernels = !at::GradMode::is_enabled();
    Tensor dx, dweight, dbias;
    if (wants_gradient_of(0)) {
      const bool kernel = kernels && has_rows_kernel(parts, weight, Factor::plain);
      dx = (kernel ? rows_product(parts, weight, Factor::plain) : product_of(parts, weight))
               .view(x.sizes());
    }
    if (kernels && has_columns_kernel(parts, rows) && wants_gradient_of(1)) {
      std::tie(dweight, dbias) = columns_product(parts, rows);
      return {dx, dweight, wants_gradient_of(2) ? dbias : Tensor()};
    }
    if (wants_gradient_of(1)) dweight = products_with(parts, rows);
    if (wants_gradient_of(2)) dbias = sums_of(parts);
    return {dx, dweight, dbias};
  }
};

// The values are the fourth input.
struct KnownGradient : Gradient {
  TensorVector forward(const TensorVector& inputs) override {
    save({inputs[0], inputs[1]});
    return {inputs[3]};
  }
  TensorVector backward(const TensorVector& gradients) override {
    auto found = Gradient::backward(gradients);
    found.emplace_back();
    return found;
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

Tensor affine_again(const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  TORCH_CHECK(y.dim() == x.dim() &&
                  y.sizes().slice(0, y.dim() - 1) == x.sizes().slice(0, x.dim() - 1) &&
                  y.size(-1) == weight.size(0),
              "affine_again: y is ", y.sizes(), ", x ", x.sizes(), ", weight ", weight.sizes());
  const auto known = y.detach();
  if (!wants_gradient(x, weight, bias)) return known;
  return applied<KnownGradient>({x, weight, bias, known})[0];
}

std::vector<Tensor> affine_parts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 at::IntArrayRef widths) {
  if (wants_gradient(x, weight, bias)) return applied<Gradient>({x, weight, bias}, widths);
  return affine(x, weight, bias).split_with_sizes(widths, -1);
}

}  // namespace longbow
