#include "longbow/ops/block_softmax.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "longbow/kernels/block_softmax.h"
#include "longbow/ops/block_softmax_formula.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"
#include "longbow/ops/packed_rule.h"
#include "longbow/ops/philox_task.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Maybe = std::optional<Tensor>;

// Of [1 or B, 1 or H, ...] without gaps, or undefined.
template <class T>
kernels::PerHead<T> per_head(const Tensor& x) {
  if (!x.defined()) return {nullptr, 0, 0};
  return {x.const_data_ptr<T>(), x.size(0) == 1 ? 0 : x.stride(0),
          x.size(1) == 1 ? 0 : x.stride(1)};
}
Tensor dense(const Tensor& x) {
  return x.defined() ? x.contiguous() : x;
}

// A rule whose tensors have no gaps.
BlockRule dense(BlockRule rule) {
  auto& [pairs, visibility, dropped, distances, scale] = rule;
  pairs.columns = dense(pairs.columns);
  if (visibility.key_bias.defined()) visibility.key_bias = visibility.key_bias.to(at::kFloat);
  for (auto* x : {&visibility.keep, &visibility.query_positions, &visibility.key_positions,
                  &visibility.query_groups, &visibility.key_groups, &visibility.key_bias})
    *x = dense(*x);
  return rule;
}

bool fits(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
          const BlockRule& rule) {
  constexpr int64_t kMost = int64_t{1} << 30;  // the kernels count in 32 bits
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
         v.numel() > 0 && listed > 0 && blocks * listed < kMost &&
         b * h * std::max(q.size(2), k.size(2)) < kMost &&
         std::max(pairs.query_block, pairs.key_block) < kMost;
}

// Of arguments that have the kernel's form; out and log_sum are set by the caller.
kernels::BlockSoftmax task_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                              const BlockRule& rule) {
  const auto& [pairs, visibility, dropped, distances, scale] = rule;
  if (dropped.rate > 0) check_key(dropped.key, "block_softmax");
  int exponent = 0;
  const bool exact = std::frexp(scale, &exponent) == 0.5;  // a power of two
  return {.type = element_of(q),
          .batch = q.size(0),
          .heads = q.size(1),
          .queries = q.size(2),
          .keys = k.size(2),
          .width = q.size(3),
          .value_width = v.size(3),
          .query_block = pairs.query_block,
          .key_block = pairs.key_block,
          .blocks = pairs.columns.size(2),
          .listed = pairs.columns.size(3),
          .scale = exact ? static_cast<float>(scale) : 1,
          .factor = exact ? 1 : static_cast<float>(scale),
          .q = rows_of(q),
          .k = rows_of(k),
          .v = rows_of(v),
          .columns = per_head<int64_t>(pairs.columns),
          .back = visibility.back,
          .ahead = visibility.ahead,
          .first = visibility.first,
          .apart = visibility.apart,
          .keep = per_head<bool>(visibility.keep),
          .query_positions = per_head<int64_t>(visibility.query_positions),
          .key_positions = per_head<int64_t>(visibility.key_positions),
          .query_groups = per_head<int64_t>(visibility.query_groups),
          .key_groups = per_head<int64_t>(visibility.key_groups),
          .key_bias = per_head<float>(visibility.key_bias),
          .bias = per_head<float>(bias),
          .low = distances.low,
          .high = distances.high,
          .key = dropped.rate > 0 ? dropped.key.const_data_ptr<int64_t>() : nullptr,
          .site = dropped.site,
          .rate = dropped.rate,
          .out = {},
          .log_sum = nullptr};
}
Tensor dense_bias(const Maybe& bias) {
  return bias ? bias->to(at::kFloat).contiguous() : Tensor();
}

Two forward(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v, const Maybe& bias,
            const OptionalTensors& tensors, at::IntArrayRef numbers, at::ArrayRef<double> factors) {
  const auto rule = unpacked(tensors, numbers, factors);
  const auto added = bias.value_or(Tensor());
  if (!fits(given_q, given_k, given_v, added, rule))
    return block_softmax_formula(given_q, given_k, given_v, added, rule);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), v = with_rows(given_v),
             wide_bias = dense_bias(bias);
  const auto dense_rule = dense(rule);
  const auto out = empty_rows(q, v.size(3)),
             log_sum = at::empty(q.sizes().slice(0, 3), q.options().dtype(at::kFloat));
  auto task = task_of(q, k, v, wide_bias, dense_rule);
  task.out = results_of(out);
  task.log_sum = log_sum.mutable_data_ptr<float>();
  kernels::block_softmax_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, log_sum};
}

// Which entries of the lists name each block of keys, in their order: a stable sort by block, and
// where each begins.
struct Readers {
  Tensor order, first;  // [1 or B, 1 or H, U S], [.., blocks of keys + 1]
};
Readers readers_of(const Tensor& columns, int64_t key_blocks) {
  const auto [sorted, order] = columns.flatten(2).sort(/*stable=*/true, -1, /*descending=*/false);
  const auto numbers = at::arange(key_blocks + 1, columns.options());
  return {order.contiguous(),
          at::searchsorted(sorted.contiguous(),
                           numbers.expand({columns.size(0), columns.size(1), -1}).contiguous())};
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
             dsums = dlog_sum.contiguous(), wide_bias = dense_bias(bias);
  const auto dense_rule = dense(rule);
  const auto& columns = dense_rule.pairs.columns;
  const int64_t key_block = rule.pairs.key_block;
  const auto readers = readers_of(columns, (k.size(2) + key_block - 1) / key_block);
  const auto [dq, dk, dv] = empty_beside(q, k, v);
  const auto delta = at::empty_like(sums);
  Tensor dbias, dk_parts, dv_parts;
  if (wants_bias) {
    const int64_t labels = rule.distances.count();
    const std::vector<int64_t> rows = {q.size(0), q.size(1), q.size(2), labels},
                               weights = {q.size(0), q.size(1), columns.size(2),
                                          rule.pairs.query_block, columns.size(3) * key_block};
    dbias = at::zeros(labels > 0 ? rows : weights, sums.options());
  }
  kernels::BlockSoftmaxBackward task = {
      .past = task_of(q, k, v, wide_bias, dense_rule),
      .dout = rows_of(dout),
      .dlog_sum = dsums.const_data_ptr<float>(),
      .delta = delta.mutable_data_ptr<float>(),
      .dq = results_of(dq),
      .dk = results_of(dk),
      .dv = results_of(dv),
      .dbias = wants_bias ? dbias.mutable_data_ptr<float>() : nullptr,
      .order = per_head<int64_t>(readers.order),
      .first = per_head<int64_t>(readers.first),
      .readers = rule.pairs.readers,
      .parts = 1,
      .dk_parts = nullptr,
      .dv_parts = nullptr};
  task.past.out = results_of(results);
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
