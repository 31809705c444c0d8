#include "longbow/ops/block_softmax.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

#include "longbow/ops/block_memory.h"
#include "longbow/ops/block_softmax_formula.h"
#include "longbow/ops/cuda/block_task.h"
#include "longbow/ops/head_rows.h"
#include "longbow/ops/packed_rule.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Maybe = std::optional<Tensor>;

constexpr int64_t kMost = int64_t{1} << 30;  // the kernels count in 32 bits

bool fits(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
          const BlockRule& rule) {
  const auto type = q.scalar_type();
  if (type != at::kBFloat16 && type != at::kHalf) return false;
  if (k.scalar_type() != type || v.scalar_type() != type) return false;
  const int64_t b = q.size(0), h = q.size(1), e = q.size(3), d = v.size(3);
  for (const auto& x : {k, v})
    if (x.size(0) != b || x.size(1) != h) return false;
  const auto& [pairs, visibility, dropped, distances, scale] = rule;
  for (const auto& x :
       {pairs.columns, visibility.keep, visibility.query_positions, visibility.key_positions,
        visibility.query_groups, visibility.key_groups, visibility.key_bias, bias})
    if (x.defined() && ((x.size(0) != 1 && x.size(0) != b) || (x.size(1) != 1 && x.size(1) != h)))
      return false;
  const int64_t blocks = pairs.columns.size(2), listed = pairs.columns.size(3);
  return e % 8 == 0 && d % 8 == 0 && std::max(e, d) <= 128 && q.numel() > 0 && k.numel() > 0 &&
         v.numel() > 0 && listed > 0 && (visibility.memory.tokens == 0 || distances.count() > 0) &&
         blocks * listed < kMost && b * h * std::max(q.size(2), k.size(2)) < kMost &&
         std::max(pairs.query_block, pairs.key_block) < kMost &&
         (distances.count() <= 0 || q.size(2) * h * distances.count() < kMost) &&
         kernels::block_softmax_memory(std::max(e, d)) <= block_memory(q);
}

// In float32; or, by distance and of all heads, in the type of queries, as its gradient then is,
// where there is nothing else. Numbers of a query lie beside each other, and those of others
// anywhere.
Tensor dense_bias(const Maybe& bias, const Tensor& q, const BlockRule& rule) {
  if (!bias) return {};
  const bool rounded = rule.distances.count() > 0 && rule.dropped.rate == 0 &&
                       !rule.visibility.key_bias.defined() &&
                       bias->scalar_type() == q.scalar_type() &&
                       bias->sizes().slice(0, 2) == q.sizes().slice(0, 2) &&
                       (rule.visibility.memory.tokens == 0 || reads_windows(rule, q.size(2)));
  const auto found = bias->to(rounded ? q.scalar_type() : at::kFloat);
  const bool lines = rounded && found.is_non_overlapping_and_dense() && found.stride(3) == 1 &&
                     found.size(2) * found.stride(2) < kMost;
  return lines ? found : found.contiguous();
}

// Zeros of the size of all weights or of all distances, which lie as the bias does.
Tensor zero_gradient(const Tensor& bias, const Tensor& q, const BlockRule& rule) {
  const auto& pairs = rule.pairs;
  const int64_t b = q.size(0), h = q.size(1), labels = rule.distances.count();
  if (labels > 0 && bias.size(0) == b && bias.size(1) == h) return at::zeros_like(bias);
  if (labels > 0) return at::zeros({b, h, q.size(2), labels}, bias.options());
  return at::zeros(
      {b, h, pairs.columns.size(2), pairs.query_block, pairs.columns.size(3) * pairs.key_block},
      bias.options());
}

Two forward(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v, const Maybe& bias,
            const OptionalTensors& tensors, at::IntArrayRef numbers, at::ArrayRef<double> factors) {
  const auto rule = unpacked(tensors, numbers, factors);
  const auto added = bias.value_or(Tensor());
  if (!fits(given_q, given_k, given_v, added, rule))
    return block_softmax_formula(given_q, given_k, given_v, added, rule);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), v = with_rows(given_v),
             added_bias = dense_bias(bias, q, rule);
  const auto dense_rule = dense(rule);
  const auto out = empty_rows(q, v.size(3)),
             log_sum = at::empty(q.sizes().slice(0, 3), q.options().dtype(at::kFloat));
  auto task = block_task(q, k, v, added_bias, dense_rule);
  task.out = results_of(out);
  task.log_sum = log_sum.mutable_data_ptr<float>();
  kernels::block_softmax_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, log_sum};
}

Four backward(const Tensor& given_dout, const Tensor& dlog_sum, const Tensor& given_q,
              const Tensor& given_k, const Tensor& given_v, const Maybe& bias, const Tensor& out,
              const Tensor& log_sum, bool wants_bias, const OptionalTensors& tensors,
              at::IntArrayRef numbers, at::ArrayRef<double> factors) {
  const auto rule = unpacked(tensors, numbers, factors);
  const auto added = bias.value_or(Tensor());
  if (!fits(given_q, given_k, given_v, added, rule))
    return block_softmax_formula_backward(
        {given_q, given_k, given_v, added, out, log_sum, given_dout, dlog_sum, wants_bias}, rule);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), v = with_rows(given_v),
             results = with_rows(out), dout = with_rows(given_dout), sums = log_sum.contiguous(),
             dsums = dlog_sum.contiguous(), added_bias = dense_bias(bias, q, rule);
  const auto dense_rule = dense(rule);
  const auto& columns = dense_rule.pairs.columns;
  const int64_t key_block = rule.pairs.key_block;
  const auto readers = readers_of(columns, (k.size(2) + key_block - 1) / key_block);
  const auto [dq, dk, dv] = empty_beside(q, k, v);
  const auto delta = at::empty_like(sums);
  Tensor dbias, dk_parts, dv_parts;
  if (wants_bias) dbias = zero_gradient(added_bias, q, dense_rule);
  kernels::BlockSoftmaxBackward task = {.past = block_task(q, k, v, added_bias, dense_rule),
                                        .out = rows_of(results),
                                        .dout = rows_of(dout),
                                        .dlog_sum = dsums.const_data_ptr<float>(),
                                        .delta = delta.mutable_data_ptr<float>(),
                                        .dq = results_of(dq),
                                        .dk = results_of(dk),
                                        .dv = results_of(dv),
                                        .dbias = wants_bias ? dbias.mutable_data_ptr() : nullptr,
                                        .dbias_batch = wants_bias ? dbias.stride(0) : 0,
                                        .dbias_head = wants_bias ? dbias.stride(1) : 0,
                                        .order = per_head<int64_t>(readers.order),
                                        .first = per_head<int64_t>(readers.first),
                                        .readers = rule.pairs.readers,
                                        .parts = 1,
                                        .dk_parts = nullptr,
                                        .dv_parts = nullptr};
  task.past.log_sum = sums.mutable_data_ptr<float>();
  task.parts = kernels::block_softmax_parts(task.past);
  if (task.parts > 1) {
    const auto parts = [&](const Tensor& x) {
      return at::empty({task.parts, x.size(0), x.size(1), x.size(2), x.size(3)}, sums.options());
    };
    dk_parts = parts(k);
    dv_parts = parts(v);
    task.dk_parts = dk_parts.mutable_data_ptr<float>();
    task.dv_parts = dv_parts.mutable_data_ptr<float>();
  }
  kernels::block_softmax_backward_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dq, task.parts > 1 ? dk_parts.sum(0).to(k.scalar_type()) : dk,
          task.parts > 1 ? dv_parts.sum(0).to(v.scalar_type()) : dv,
          wants_bias ? dbias.sum_to_size(bias->sizes()).to(bias->scalar_type()) : Tensor()};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("block_softmax", forward);
  m.impl("block_softmax_backward", backward);
}

}  // namespace
}  // namespace longbow
