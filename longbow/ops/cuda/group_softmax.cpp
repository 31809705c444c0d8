#include "longbow/ops/group_softmax.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>

#include "longbow/kernels/group_softmax.h"
#include "longbow/ops/group_softmax_formula.h"
#include "longbow/ops/philox_task.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

bool fits(const Tensor& x, int64_t group) {
  return has_group_kernel(x, group) && x.numel() > 0 && x.is_contiguous() &&
         reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

void weigh(Tensor& scores, const Maybe& gradient, int64_t group, const Maybe& key,
           at::IntArrayRef window, double rate) {
  if (!fits(scores, group) || (gradient && !fits(*gradient, group)))
    return group_softmax_by_aten(scores, gradient, group, key, window, rate);
  const c10::cuda::CUDAGuard guard(scores.device());
  if (key) check_key(*key, "group_softmax_");
  kernels::group_softmax_cuda({.scores = scores.mutable_data_ptr<float>(),
                               .gradient = gradient ? gradient->mutable_data_ptr<float>() : nullptr,
                               .slabs = scores.size(0),
                               .count = scores.size(1),
                               .columns = scores.size(2),
                               .group = group,
                               .key = key ? key->const_data_ptr<int64_t>() : nullptr,
                               .site = static_cast<uint64_t>(window[0]),
                               .rate = rate,
                               .rows = window[1],
                               .first = window[2]},
                              c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("group_softmax_", weigh);
}

}  // namespace
}  // namespace longbow
