#include "longbow/ops/running_weights.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>

#include "longbow/kernels/running_weights.h"
#include "longbow/ops/cuda/channel_pairs.h"
#include "longbow/ops/running_weights_formula.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

auto stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

// What both passes are told; it holds what the addresses point to.
struct Given {
  Tensor logits, keep, chunk_sums;
  kernels::RunningWeights task;

  Given(const Tensor& given, const Maybe& given_keep, double clip)
      : logits(paired(given)), keep(given_keep ? given_keep->contiguous() : Tensor()) {
    constexpr int64_t kLeast = 64, kMost = kernels::RunningWeights::most_chunks;
    const int64_t b = logits.size(0), n = logits.size(1),
                  chunk = std::max(kLeast, (n + kMost - 1) / kMost),
                  chunks = (n + chunk - 1) / chunk;
    chunk_sums = at::empty({b, chunks, logits.size(2)}, logits.options().dtype(at::kFloat));
    task.logits = token_rows_of(logits);
    task.keep = keep.defined() ? keep.const_data_ptr<bool>() : nullptr;
    task.clip = static_cast<float>(clip);
    task.chunk_sums = chunk_sums.mutable_data_ptr<float>();
    task.batch = b;
    task.tokens = n;
    task.channels = logits.size(2);
    task.chunks = chunks;
    task.chunk = chunk;
  }
};

std::tuple<Tensor, Tensor> forward(const Tensor& logits, const Maybe& keep, double clip) {
  if (!has_running_weights_kernel(logits)) return running_weights_formula(logits, keep, clip);
  const c10::cuda::CUDAGuard guard(logits.device());
  Given given(logits, keep, clip);
  const auto weights = at::empty(logits.sizes(), logits.options()), sums = at::empty_like(weights);
  given.task.weights = token_results_of(weights);
  given.task.sums = token_results_of(sums);
  kernels::running_weights_cuda(given.task, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {weights, sums};
}

Tensor backward(const Tensor& given_dweights, const Tensor& given_dagain, const Tensor& given_dsums,
                const Tensor& logits, const Maybe& keep, double clip) {
  for (const auto& gradient : {given_dweights, given_dagain, given_dsums})
    if (!has_running_weights_kernel(logits) || gradient.scalar_type() != at::kBFloat16)
      return running_weights_backward_formula(given_dweights, given_dagain, given_dsums, logits,
                                              keep, clip);
  const c10::cuda::CUDAGuard guard(logits.device());
  Given given(logits, keep, clip);
  const auto dweights = paired(given_dweights), dagain = paired(given_dagain),
             dsums = paired(given_dsums);
  const auto dlogits = at::empty(logits.sizes(), logits.options());
  given.task.dweights[0] = token_rows_of(dweights);
  given.task.dweights[1] = token_rows_of(dagain);
  given.task.dsums = token_rows_of(dsums);
  given.task.dlogits = token_results_of(dlogits);
  kernels::running_weights_backward_cuda(given.task, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return dlogits;
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("running_weights", forward);
  m.impl("running_weights_backward", backward);
}

}  // namespace
}  // namespace longbow
