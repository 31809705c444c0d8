#include "longbow/ops/philox.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "longbow/ops/in_parallel.h"
#include "longbow/ops/philox_task.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor on_cpu(const Tensor& key, int64_t site, at::IntArrayRef shape) {
  auto out = empty_draw(key, shape);
  constexpr int64_t kGrain = 1 << 14;
  const int64_t count = out.numel(), pieces = (count + kGrain - 1) / kGrain;
  in_parallel(pieces, 4 * kGrain, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece)
      kernels::philox_uniform({.key = key.const_data_ptr<int64_t>(),
                               .site = static_cast<uint64_t>(site),
                               .out = out.mutable_data_ptr<float>() + piece * kGrain,
                               .first = piece * kGrain,
                               .count = std::min(kGrain, count - piece * kGrain)});
  });
  return out;
}

void window_on_cpu(const Tensor& key, int64_t site, int64_t rows, int64_t columns, int64_t row,
                   int64_t column, Tensor& out) {
  const auto whole = window_task(key, site, rows, columns, row, column, out);
  in_parallel(whole.slabs, 4 * whole.rows * whole.columns, [&](int64_t first, int64_t last) {
    auto part = whole;
    part.out += first * whole.rows * whole.columns;
    part.first += first * whole.slab;
    part.slabs = last - first;
    kernels::philox_window(part);
  });
}

Tensor on_meta(const Tensor& key, int64_t, at::IntArrayRef shape) {
  return empty_draw(key, shape);
}
void window_on_meta(const Tensor&, int64_t, int64_t, int64_t, int64_t, int64_t, Tensor&) {}

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
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("philox_uniform", on_meta);
  m.impl("philox_window", window_on_meta);
}

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
