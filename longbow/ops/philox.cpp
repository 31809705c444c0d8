#include "longbow/ops/philox.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include "longbow/kernels/philox.h"
#ifdef LONGBOW_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace longbow {
namespace {

using at::Tensor;

void check_key(const Tensor& key, const char* name) {
  TORCH_CHECK(key.scalar_type() == at::kLong && key.numel() == 2 && key.is_contiguous(), name,
              ": key is ", key.sizes(), " ", key.scalar_type(), ", but needs [2] int64");
}

Tensor allocate(const Tensor& key, at::IntArrayRef shape) {
  check_key(key, "philox_uniform");
  return at::empty(shape, key.options().dtype(at::kFloat));
}

Tensor on_cpu(const Tensor& key, int64_t site, at::IntArrayRef shape) {
  auto out = allocate(key, shape);
  constexpr int64_t kGrain = 1 << 14;
  const int64_t count = out.numel(), pieces = (count + kGrain - 1) / kGrain;
  at::parallel_for(0, pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece)
      kernels::philox_uniform({.key = key.const_data_ptr<int64_t>(),
                               .site = static_cast<uint64_t>(site),
                               .out = out.mutable_data_ptr<float>() + piece * kGrain,
                               .first = piece * kGrain,
                               .count = std::min(kGrain, count - piece * kGrain)});
  });
  return out;
}

kernels::PhiloxWindow window_of(const Tensor& key, int64_t site, int64_t rows, int64_t columns,
                                int64_t row, int64_t column, const Tensor& out) {
  check_key(key, "philox_window");
  TORCH_CHECK(out.dim() == 3 && out.scalar_type() == at::kFloat && out.is_contiguous() &&
                  out.device() == key.device(),
              "philox_window: out is ", out.sizes(), " ", out.scalar_type(),
              ", but needs [G, R, C] float32 beside the key");
  TORCH_CHECK(
      row >= 0 && row + out.size(1) <= rows && column >= 0 && column + out.size(2) <= columns,
      "philox_window: ", out.sizes(), " from row ", row, " and column ", column, " leaves the ",
      rows, " rows and ", columns, " columns");
  return {.key = key.const_data_ptr<int64_t>(),
          .site = static_cast<uint64_t>(site),
          .out = out.mutable_data_ptr<float>(),
          .first = row * columns + column,
          .slab = rows * columns,
          .row = columns,
          .slabs = out.size(0),
          .rows = out.size(1),
          .columns = out.size(2)};
}

void window_on_cpu(const Tensor& key, int64_t site, int64_t rows, int64_t columns, int64_t row,
                   int64_t column, Tensor& out) {
  const auto whole = window_of(key, site, rows, columns, row, column, out);
  at::parallel_for(0, whole.slabs, 1, [&](int64_t first, int64_t last) {
    auto part = whole;
    part.out += first * whole.rows * whole.columns;
    part.first += first * whole.slab;
    part.slabs = last - first;
    kernels::philox_window(part);
  });
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("philox_uniform(Tensor key, int site, int[] shape) -> Tensor");
  m.def(
      "philox_window(Tensor key, int site, int rows, int columns, int row, int column, "
      "Tensor(a!) out) -> ()");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("philox_uniform", on_cpu);
  m.impl("philox_window", window_on_cpu);
}

#ifdef LONGBOW_CUDA
Tensor on_cuda(const Tensor& key, int64_t site, at::IntArrayRef shape) {
  const c10::cuda::CUDAGuard guard(key.device());
  auto out = allocate(key, shape);
  if (out.numel() == 0) return out;
  kernels::philox_uniform_cuda({.key = key.const_data_ptr<int64_t>(),
                                .site = static_cast<uint64_t>(site),
                                .out = out.mutable_data_ptr<float>(),
                                .first = 0,
                                .count = out.numel()},
                               c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
void window_on_cuda(const Tensor& key, int64_t site, int64_t rows, int64_t columns, int64_t row,
                    int64_t column, Tensor& out) {
  const c10::cuda::CUDAGuard guard(key.device());
  const auto task = window_of(key, site, rows, columns, row, column, out);
  if (out.numel() == 0) return;
  kernels::philox_window_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("philox_uniform", on_cuda);
  m.impl("philox_window", window_on_cuda);
}
#endif

}  // namespace

Tensor philox_uniform(const Tensor& key, uint64_t site, at::IntArrayRef shape) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::philox_uniform", "")
                             .typed<Tensor(const Tensor&, int64_t, at::IntArrayRef)>();
  return op.call(key, static_cast<int64_t>(site), shape);
}

void philox_window(const Tensor& key, uint64_t site, int64_t rows, int64_t columns, int64_t row,
                   int64_t column, Tensor& out) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("longbow::philox_window", "")
          .typed<void(const Tensor&, int64_t, int64_t, int64_t, int64_t, int64_t, Tensor&)>();
  op.call(key, static_cast<int64_t>(site), rows, columns, row, column, out);
}

}  // namespace longbow
