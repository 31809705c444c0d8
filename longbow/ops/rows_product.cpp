#include "longbow/ops/rows_product.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "longbow/kernels/few_rows.h"
#include "longbow/kernels/rows_product.h"
#include "longbow/ops/in_parallel.h"

namespace longbow {

namespace {

using at::Tensor;

constexpr int64_t kMany = 64, kFew = 16;  // rows, at least and at most

int64_t width_of(at::TensorList parts) {
  int64_t width = 0;
  for (const auto& part : parts) width += part.size(1);
  return width;
}

std::vector<kernels::LeftColumns> left_columns(at::TensorList parts) {
  std::vector<kernels::LeftColumns> all;
  for (const auto& part : parts)
    all.push_back({{part.const_data_ptr<float>(), part.stride(0)}, part.size(1)});
  return all;
}

// Whether kernels read all of these as columns of one matrix.
bool readable(at::TensorList parts) {
  return !parts.empty() && std::ranges::all_of(parts, [&](const Tensor& x) {
    return x.is_cpu() && x.scalar_type() == at::kFloat && x.dim() == 2 && x.stride(1) == 1 &&
           x.size(0) > 0 && x.size(0) == parts[0].size(0) && x.size(1) > 0;
  });
}

std::string sizes_of(at::TensorList parts) {
  std::string all;
  for (const auto& part : parts) all += c10::str(all.empty() ? "" : ", ", part.sizes());
  return all;
}

// Of a matrix [O, K] as it lies.
Tensor few_rows(const Tensor& x, const Tensor& b, const Tensor& bias) {
  constexpr int64_t kUnit = 16;  // columns
  const int64_t rows = x.size(0), depth = x.size(1), columns = b.size(0);
  const auto y = at::empty({rows, columns}, x.options());
  const kernels::FewRows task = {.x = {x.const_data_ptr<float>(), x.stride(0)},
                                 .w = {b.const_data_ptr<float>(), b.stride(0)},
                                 .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr,
                                 .rows = rows,
                                 .depth = depth,
                                 .y = {y.mutable_data_ptr<float>(), columns}};
  in_parallel((columns + kUnit - 1) / kUnit, kUnit * rows * depth / 16,
              [&](int64_t first, int64_t last) {
                kernels::few_rows(task, first * kUnit, std::min(last * kUnit, columns));
              });
  return y;
}

Tensor on_cpu(at::TensorList parts, const Tensor& b, bool transposed,
              const std::optional<Tensor>& bias) {
  const auto& x = parts[0];
  const int64_t rows = x.size(0), depth = width_of(parts), columns = b.size(transposed ? 0 : 1);
  const auto matrix = b.contiguous(), added = bias ? bias->contiguous() : Tensor();
  if (rows < kMany) return few_rows(x, matrix, added);
  const auto left = left_columns(parts);
  const int64_t panels = kernels::panels_of(columns);
  const auto packed = at::empty({panels, kernels::panel_rows(depth), kernels::kPanel}, x.options()),
             y = at::empty({rows, columns}, x.options());
  in_parallel(panels, 4 * depth, [&](int64_t first, int64_t last) {
    kernels::pack_panels({.b = {matrix.const_data_ptr<float>(), matrix.stride(0)},
                          .transposed = transposed,
                          .depth = depth,
                          .columns = columns,
                          .panels = packed.mutable_data_ptr<float>()},
                         first, last);
  });
  in_parallel(rows, depth * columns / 16, [&](int64_t first, int64_t last) {
    kernels::rows_product({.x = left,
                           .panels = packed.const_data_ptr<float>(),
                           .bias = added.defined() ? added.const_data_ptr<float>() : nullptr,
                           .depth = depth,
                           .columns = columns,
                           .y = {y.mutable_data_ptr<float>(), columns}},
                          first, last);
  });
  return y;
}

std::tuple<Tensor, Tensor> columns_on_cpu(at::TensorList a, const Tensor& b) {
  constexpr int64_t kUnit = 24;  // rows of the result, in whole groups on any machine
  const int64_t rows = b.size(0), count = width_of(a), columns = b.size(1);
  const auto left = left_columns(a);
  const auto out = at::empty({count, columns}, b.options()), sums = at::empty({count}, b.options());
  const kernels::ColumnsProduct task = {.a = left,
                                        .b = {b.const_data_ptr<float>(), b.stride(0)},
                                        .rows = rows,
                                        .columns = columns,
                                        .out = {out.mutable_data_ptr<float>(), columns},
                                        .sums = sums.mutable_data_ptr<float>()};
  in_parallel((count + kUnit - 1) / kUnit, kUnit * rows * columns / 16,
              [&](int64_t first, int64_t last) {
                kernels::columns_product(task, first * kUnit, std::min(last * kUnit, count));
              });
  return {out, sums};
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("columns_product(Tensor[] a, Tensor b) -> (Tensor out, Tensor sums)");
  m.def("rows_product(Tensor[] x, Tensor b, bool transposed, Tensor? bias) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("rows_product", on_cpu);
  m.impl("columns_product", columns_on_cpu);
}

}  // namespace

Tensor rows_product(at::TensorList x, const Tensor& b, Factor factor, const Tensor& bias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::rows_product", "")
                             .typed<decltype(on_cpu)>();
  const bool transposed = factor == Factor::transposed;
  TORCH_CHECK(has_rows_kernel(x, b, factor), "rows_product: x is ", sizes_of(x), " and b ",
              b.sizes());
  const int64_t columns = b.size(transposed ? 0 : 1);
  TORCH_CHECK(!bias.defined() ||
                  (bias.scalar_type() == at::kFloat && bias.dim() == 1 && bias.size(0) == columns),
              "rows_product: bias is ", bias.scalar_type(), " ", bias.sizes(), " for ", columns,
              " columns");
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(x, b, transposed, bias.defined() ? std::optional(bias) : std::nullopt);
}

std::tuple<Tensor, Tensor> columns_product(at::TensorList a, const Tensor& b) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::columns_product", "")
                             .typed<decltype(columns_on_cpu)>();
  TORCH_CHECK(has_columns_kernel(a, b), "columns_product: a is ", sizes_of(a), " and b ",
              b.sizes());
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(a, b);
}

bool has_columns_kernel(at::TensorList a, const Tensor& b) {
  return readable(a) && readable(b) && a[0].size(0) == b.size(0) && b.size(0) >= kMany &&
         b.size(1) % kernels::kHalfPanel == 0;
}

bool has_rows_kernel(at::TensorList x, const Tensor& b, Factor factor) {
  const bool transposed = factor == Factor::transposed;
  if (!readable(x) || b.dim() != 2 || b.scalar_type() != at::kFloat ||
      b.size(transposed ? 1 : 0) != width_of(x))
    return false;
  const int64_t rows = x[0].size(0), columns = b.size(transposed ? 0 : 1);
  if (rows >= kMany) return columns > 0 && columns % kernels::kHalfPanel == 0;
  constexpr int64_t kLarge = 4096;  // numbers, from which on reading them takes the time
  return transposed && x.size() == 1 && rows <= kFew && b.is_contiguous() && b.numel() >= kLarge;
}

}  // namespace longbow
