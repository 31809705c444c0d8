#include "longbow/ops/cuda/block_task.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "longbow/kernels/bucket_orders.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"
#include "longbow/ops/philox_task.h"

namespace longbow {

using at::Tensor;

namespace {

Tensor dense(const Tensor& x) {
  return x.defined() ? x.contiguous() : x;
}

}  // namespace

BlockRule dense(BlockRule rule) {
  auto& [pairs, visibility, dropped, distances, scale] = rule;
  pairs.columns = dense(pairs.columns);
  if (visibility.key_bias.defined()) visibility.key_bias = visibility.key_bias.to(at::kFloat);
  for (auto* x : {&visibility.keep, &visibility.query_positions, &visibility.key_positions,
                  &visibility.query_groups, &visibility.key_groups, &visibility.key_bias})
    *x = dense(*x);
  return rule;
}

bool reads_windows(const BlockRule& rule, int64_t queries) {
  constexpr int64_t kTile = 64;
  const auto& [pairs, seen, dropped, distances, scale] = rule;
  const auto& memory = seen.memory;
  if (memory.tokens == 0)
    return !seen.query_groups.defined() && !seen.key_positions.defined() && seen.apart <= 0 &&
           seen.first <= 0 && seen.back <= -distances.low && seen.ahead <= distances.high &&
           -seen.ahead <= seen.back;
  const bool whole = memory.slots == 0 ||
                     (pairs.key_block % kTile == 0 && memory.first_slot % pairs.key_block == 0);
  return whole && distances.high >= 0 && -distances.low >= std::min(memory.farthest(), queries - 1);
}

kernels::BlockSoftmax block_task(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& bias, const BlockRule& rule) {
  const auto& [pairs, visibility, dropped, distances, scale] = rule;
  if (dropped.rate > 0) check_key(dropped.key, "block_softmax");
  const auto& memory = visibility.memory;
  const bool rounded = bias.defined() && bias.scalar_type() != at::kFloat;
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
          .scale = static_cast<float>(scale),
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
          .memory = {.tokens = memory.tokens,
                     .segment = memory.segment,
                     .rate = memory.rate,
                     .slots = memory.slots,
                     .first_slot = memory.first_slot},
          .bias = rounded ? kernels::PerHead<float>{} : per_head<float>(bias),
          .low = distances.low,
          .high = distances.high,
          .rounded_bias = rounded ? per_head<uint16_t>(bias) : kernels::PerHead<uint16_t>{},
          .bias_line = bias.defined() ? bias.stride(2) : 0,
          .windows = rounded && reads_windows(rule, q.size(2)),
          .key = dropped.rate > 0 ? dropped.key.const_data_ptr<int64_t>() : nullptr,
          .site = dropped.site,
          .rate = dropped.rate,
          .places = {.at = {}, .orders = 1, .tokens = 0},
          .out = {},
          .log_sum = nullptr};
}

// Entries that stand for no block are those of a bucket before all others, and its end is where the
// first block begins.
Readers readers_of(const Tensor& given, int64_t key_blocks) {
  const auto columns = given.contiguous();
  const int64_t b = columns.size(0), h = columns.size(1),
                entries = columns.size(2) * columns.size(3);
  constexpr int64_t kMostEntries = 1 << 16;  // one CUDA block has all of a list
  if (key_blocks < kernels::BucketOrders::kMostBuckets && entries <= kMostEntries &&
      columns.numel() > 0) {
    const auto order = at::empty({b, h, entries}, columns.options()),
               first = at::empty({b, h, key_blocks + 1}, columns.options());
    kernels::bucket_orders_cuda({.bucket = columns.const_data_ptr<int64_t>(),
                                 .order = order.mutable_data_ptr<int64_t>(),
                                 .inverse = nullptr,
                                 .ends = first.mutable_data_ptr<int64_t>(),
                                 .lines = b * h,
                                 .tokens = entries,
                                 .buckets = static_cast<int>(key_blocks + 1),
                                 .least = -1},
                                c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {order, first};
  }
  const auto [sorted, order] = columns.flatten(2).sort(/*stable=*/true, -1, /*descending=*/false);
  const auto numbers = at::arange(key_blocks + 1, columns.options());
  return {order.contiguous(),
          at::searchsorted(sorted.contiguous(),
                           numbers.expand({columns.size(0), columns.size(1), -1}).contiguous())};
}

}  // namespace longbow
