#include "longbow/ops/silu_heads.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/kernels/silu_heads.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using kernels::SiluHeads;
using Three = std::tuple<Tensor, Tensor, Tensor>;

bool fits(const Tensor& z, int64_t copies) {
  const auto type = z.scalar_type();
  return (type == at::kBFloat16 || type == at::kHalf) && z.numel() > 0 && z.size(2) % 8 == 0 &&
         z.size(2) <= SiluHeads::kMostWidth && copies > 0 && copies <= SiluHeads::kMostCopies;
}

// Of rows and parameters as the kernels read them; offset and results are set by the caller.
SiluHeads task_of(const Tensor& z, const Tensor& gain) {
  return {.type = element_of(z),
          .tokens = z.size(0),
          .width = z.size(1),
          .stride = z.stride(0),
          .copies = static_cast<int>(gain.size(0)),
          .z = z.const_data_ptr(),
          .gain = gain.const_data_ptr(),
          .offset = nullptr,
          .y = {}};
}

std::vector<Tensor> forward(const Tensor& given, const Tensor& given_gain,
                            const Tensor& given_offset) {
  if (!fits(given, given_gain.size(0))) return silu_heads_formula(given, given_gain, given_offset);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto z = token_rows(given), gain = dense_rows(given_gain),
             offset = dense_rows(given_offset);
  auto task = task_of(z, gain);
  task.offset = offset.const_data_ptr();
  std::vector<Tensor> found;
  for (int r = 0; r < task.copies; ++r) {
    found.push_back(at::empty(given.sizes(), given.options()));
    task.y[r] = found.back().mutable_data_ptr();
  }
  kernels::silu_heads_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return found;
}

Three backward(at::TensorList given_dy, const Tensor& given, const Tensor& given_gain) {
  if (!fits(given, given_gain.size(0)))
    return silu_heads_formula_backward(given_dy, given, given_gain);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto z = token_rows(given), gain = dense_rows(given_gain),
             dz = at::empty(given.sizes(), given.options());
  kernels::SiluHeadsBackward task = {
      .past = task_of(z, gain), .dy = {}, .dz = dz.mutable_data_ptr(), .parts = 0, .sums = nullptr};
  task.parts = kernels::silu_heads_parts(task.past);
  std::vector<Tensor> dy;
  for (size_t r = 0; r < given_dy.size(); ++r) {
    dy.push_back(dense_rows(given_dy[r]));
    task.dy[r] = dy.back().const_data_ptr();
  }
  const auto sums =
      at::empty({task.parts, 2, gain.size(0), gain.size(1)}, gain.options().dtype(at::kFloat));
  task.sums = sums.mutable_data_ptr<float>();
  kernels::silu_heads_backward_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto whole = sums.sum(0).to(gain.scalar_type());
  return {dz, whole[0], whole[1]};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("silu_heads", forward);
  m.impl("silu_heads_backward", backward);
}

}  // namespace
}  // namespace longbow
