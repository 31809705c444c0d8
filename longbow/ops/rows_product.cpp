#include "longbow/ops/rows_product.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <optional>

#include "longbow/kernels/rows_product.h"
#include "longbow/ops/in_parallel.h"

namespace longbow {

namespace {

using at::Tensor;

Tensor on_cpu(const Tensor& x, const Tensor& b, bool transposed,
              const std::optional<Tensor>& bias) {
  const int64_t rows = x.size(0), depth = x.size(1), columns = b.size(transposed ? 0 : 1);
  const auto matrix = b.contiguous(), added = bias ? bias->contiguous() : Tensor();
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
    kernels::rows_product({.x = {x.const_data_ptr<float>(), x.stride(0)},
                           .panels = packed.const_data_ptr<float>(),
                           .bias = added.defined() ? added.const_data_ptr<float>() : nullptr,
                           .depth = depth,
                           .columns = columns,
                           .y = {y.mutable_data_ptr<float>(), columns}},
                          first, last);
  });
  return y;
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("rows_product(Tensor x, Tensor b, bool transposed, Tensor? bias) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("rows_product", on_cpu);
}

}  // namespace

Tensor rows_product(const Tensor& x, const Tensor& b, Factor factor, const Tensor& bias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::rows_product", "")
                             .typed<decltype(on_cpu)>();
  const bool transposed = factor == Factor::transposed;
  TORCH_CHECK(b.dim() == 2 && x.dim() == 2 && b.size(transposed ? 1 : 0) == x.size(1) &&
                  has_rows_kernel(x, b, factor),
              "rows_product: x is ", x.sizes(), " and b ", b.sizes());
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(x, b, transposed, bias.defined() ? std::optional(bias) : std::nullopt);
}

bool has_rows_kernel(const Tensor& x, const Tensor& b, Factor factor) {
  constexpr int64_t kFew = 64;
  const int64_t columns = b.size(factor == Factor::transposed ? 0 : 1);
  return x.is_cpu() && x.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat &&
         x.dim() == 2 && x.size(0) >= kFew && x.size(1) > 0 && x.stride(1) == 1 &&
         columns % kernels::kHalfPanel == 0 && columns > 0;
}

}  // namespace longbow
