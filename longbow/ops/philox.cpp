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

Tensor allocate(const Tensor& key, at::IntArrayRef shape) {
  TORCH_CHECK(key.scalar_type() == at::kLong && key.numel() == 2 && key.is_contiguous(),
              "philox_uniform: key is ", key.sizes(), " ", key.scalar_type(),
              ", but needs [2] int64");
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

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("philox_uniform(Tensor key, int site, int[] shape) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("philox_uniform", on_cpu);
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
TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("philox_uniform", on_cuda);
}
#endif

}  // namespace

Tensor philox_uniform(const Tensor& key, uint64_t site, at::IntArrayRef shape) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::philox_uniform", "")
                             .typed<Tensor(const Tensor&, int64_t, at::IntArrayRef)>();
  return op.call(key, static_cast<int64_t>(site), shape);
}

}  // namespace longbow
