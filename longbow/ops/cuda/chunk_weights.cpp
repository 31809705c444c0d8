#include "longbow/ops/chunk_weights.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/chunk_weights.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;

bool fits(const Tensor& q, const Tensor& k, const Tensor& bias, int64_t tokens) {
  return has_chunk_kernel(q, tokens) && k.scalar_type() == q.scalar_type() &&
         bias.scalar_type() == at::kFloat;
}

// Of rows without gaps; bias and weights are set by the caller.
kernels::ChunkWeights task_of(const Tensor& q, const Tensor& k, int64_t tokens, double scale,
                              bool causal) {
  return {.type = element_of(q),
          .chunks = q.size(0) * q.size(1) / tokens,
          .tokens = static_cast<int>(tokens),
          .width = static_cast<int>(q.size(2)),
          .causal = causal,
          .scale = static_cast<float>(scale),
          .q = q.const_data_ptr(),
          .k = k.const_data_ptr(),
          .bias = nullptr,
          .weights = nullptr};
}

Tensor forward(const Tensor& given_q, const Tensor& given_k, const Tensor& given_bias,
               int64_t tokens, double scale, bool causal) {
  if (!fits(given_q, given_k, given_bias, tokens))
    return chunk_weights_formula(given_q, given_k, given_bias, tokens, scale, causal);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = dense_rows(given_q), k = dense_rows(given_k), bias = given_bias.contiguous();
  const auto weights = at::empty({q.size(0), q.size(1) / tokens, tokens, tokens}, q.options());
  auto task = task_of(q, k, tokens, scale, causal);
  task.bias = bias.const_data_ptr<float>();
  task.weights = weights.mutable_data_ptr();
  kernels::chunk_weights_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return weights;
}

Three backward(const Tensor& given_dweights, const Tensor& given_weights, const Tensor& given_q,
               const Tensor& given_k, const Tensor& bias, int64_t tokens, double scale,
               bool causal) {
  if (!fits(given_q, given_k, bias, tokens))
    return chunk_weights_formula_backward(given_dweights, given_weights, given_q, given_k, bias,
                                          tokens, scale, causal);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = dense_rows(given_q), k = dense_rows(given_k), weights = dense_rows(given_weights),
             dweights = dense_rows(given_dweights);
  const auto dq = at::empty(q.sizes(), q.options()), dk = at::empty(k.sizes(), k.options());
  auto task = task_of(q, k, tokens, scale, causal);
  task.weights = const_cast<void*>(weights.const_data_ptr());
  const auto sums = at::empty({task.chunks, 2 * tokens - 1}, bias.options());
  kernels::chunk_weights_backward_cuda({.past = task,
                                        .dweights = dweights.const_data_ptr(),
                                        .dq = dq.mutable_data_ptr(),
                                        .dk = dk.mutable_data_ptr(),
                                        .dbias = sums.mutable_data_ptr<float>()},
                                       c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dq, dk, sums.sum(0)};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("chunk_weights", forward);
  m.impl("chunk_weights_backward", backward);
}

}  // namespace
}  // namespace longbow
