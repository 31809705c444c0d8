#include "longbow/ops/cuda/mixture_sums.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

namespace longbow {

MixtureSums mixture_sums(kernels::SlotMixtureBackward& task, const at::Tensor& like,
                         const std::function<void(void*)>& launch) {
  const auto& past = task.past;
  const int64_t slots = past.batch * past.lanes * past.heads * past.slots,
                spans = (past.tokens + past.span - 1) / past.span, keys = slots * past.width,
                values = slots * past.value_width;
  task.stride = (keys + values + slots + 3) / 4 * 4;
  const auto parts = at::empty({spans, task.stride}, like.options());
  task.sums = parts.mutable_data_ptr<float>();
  launch(c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto sums = parts.narrow(1, 0, keys + values + slots).sum(0);
  return {sums.narrow(0, 0, keys), sums.narrow(0, keys, values),
          sums.narrow(0, keys + values, slots)};
}

}  // namespace longbow
