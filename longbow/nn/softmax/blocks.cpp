#include "longbow/nn/softmax/blocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace longbow {

BlockPairs near_blocks(int64_t tokens, int64_t block, int64_t back, int64_t ahead,
                       at::Device device) {
  const auto options = at::TensorOptions(at::kLong).device(device);
  const int64_t blocks = (tokens + block - 1) / block;
  const int64_t first = -std::min(back, blocks - 1), last = std::min(ahead, blocks - 1);
  const auto columns =
      at::arange(blocks, options).unsqueeze(1) + at::arange(first, last + 1, options);
  return {block, block,
          columns.masked_fill(columns >= blocks, -1).clamp_min(-1).view({1, 1, blocks, -1}),
          columns.size(1)};
}

BlockPairs blocks_around(int64_t tokens, int64_t block, int64_t side, at::Device device) {
  const auto options = at::TensorOptions(at::kLong).device(device);
  const int64_t part = std::gcd(block, side);  // of which both are made; `block` for no side
  const int64_t blocks = (tokens + block - 1) / block, parts = (tokens + part - 1) / part;
  const auto columns = at::arange(blocks, options).unsqueeze(1) * (block / part) +
                       at::arange(-side / part, (block + side) / part, options);
  return {block, part,
          columns.masked_fill(columns >= parts, -1).clamp_min(-1).view({1, 1, blocks, -1}),
          (2 * block + 2 * side - 1) / block};
}

Tensor kept_keys(const Tensor& keep) {
  return keep.defined() ? keep.unsqueeze(1) : keep;
}

PartialSoftmax read_blocks(const Tensor& q, const Tensor& k, const Tensor& v,
                           const BlockPairs& pairs, const Visibility& visibility,
                           const Weighing& weighing, const Context& context, const Tensor& bias,
                           const Distances& distances, double scale) {
  const auto dropped = dropped_weights(weighing, context);
  const auto read = block_softmax(q, k, v, pairs, visibility, bias, dropped, distances, scale);
  return {read.out, read.log_sum.unsqueeze(-1)};
}

// Narrow windows are read in blocks of 64 queries, which a GPU works off at once, or of 32 on a
// CPU, beside 32 tokens before and after them.
Window window_of(const Heads& heads, int64_t back, int64_t ahead, const Tensor& keep) {
  constexpr int64_t kHalf = 32;
  const int64_t whole = heads.q.is_cuda() ? 2 * kHalf : kHalf;
  const int64_t n = heads.q.size(2), side = std::max(back, ahead);
  const Visibility seen = {.back = back, .ahead = ahead, .keep = kept_keys(keep)};
  if (side <= kHalf && n > whole) return {blocks_around(n, whole, kHalf, heads.q.device()), seen};
  const int64_t block = std::clamp<int64_t>(std::max(side, kHalf), 1, n);
  const auto blocks = [&](int64_t reach) { return (reach + block - 1) / block; };
  return {near_blocks(n, block, blocks(back), blocks(ahead), heads.q.device()), seen};
}

PartialSoftmax read_window(const Heads& heads, int64_t back, int64_t ahead,
                           const Weighing& weighing, const Context& context, double scale) {
  const auto [pairs, seen] = window_of(heads, back, ahead, context.mask.keep);
  return read_blocks(heads.q, heads.k, heads.v, pairs, seen, weighing, context, {}, {}, scale);
}

}  // namespace longbow
