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
  auto columns = at::arange(blocks, options).unsqueeze(1);
  if (first != last) columns = columns + at::arange(first, last + 1, options);
  if (last > 0) columns.masked_fill_(columns >= blocks, -1);
  if (first < 0) columns.clamp_min_(-1);
  return {block, block, columns.view({1, 1, blocks, -1}), columns.size(1)};
}

BlockPairs blocks_around(int64_t tokens, int64_t block, int64_t side, at::Device device) {
  const auto options = at::TensorOptions(at::kLong).device(device);
  const int64_t part = std::gcd(block, side);  // of which both are made; `block` for no side
  const int64_t blocks = (tokens + block - 1) / block, parts = (tokens + part - 1) / part;
  const auto columns = at::arange(blocks, options).unsqueeze(1) * (block / part) +
                       at::arange(-side / part, (block + side) / part, options);
  columns.masked_fill_(columns >= parts, -1).clamp_min_(-1);
  return {block, part, columns.view({1, 1, blocks, -1}), (2 * block + 2 * side - 1) / block};
}

namespace {

// Of each block of queries the blocks of slots that it may read: [blocks, most of one].
Tensor slot_blocks(const RememberedKeys& memory, int64_t queries, int64_t keys, at::Device device) {
  constexpr int64_t kBlock = kMemoryBlock;
  const int64_t blocks = (queries + kBlock - 1) / kBlock;
  int64_t most = 1;
  for (int64_t i = 0; i < queries; i += kBlock) {
    const int64_t begin = std::max<int64_t>(memory.left(i) - memory.slots, 0),
                  end = memory.left(std::min(i + kBlock, queries) - 1);
    most = std::max(most, (end + kBlock - 1) / kBlock - begin / kBlock);
  }
  const auto options = at::TensorOptions(at::kLong).device(device);
  auto begin = at::arange(blocks, options) * kBlock;
  begin = memory.segment > 0 ? begin.floor_divide(memory.segment) * memory.segment - memory.tokens
                             : begin - (memory.tokens - 1);
  const auto first = (begin.floor_divide(memory.rate) - memory.slots).clamp_min(0);
  const auto listed = (first.floor_divide(kBlock) + memory.first_slot / kBlock).unsqueeze(1) +
                      at::arange(most, options);
  return listed.masked_fill(listed >= (keys + kBlock - 1) / kBlock, -1);
}

}  // namespace

Window remembered_window(const RememberedKeys& memory, int64_t queries, int64_t keys,
                         at::Device device) {
  constexpr int64_t kBlock = kMemoryBlock;
  int64_t back = 0;
  for (int64_t i = 0; i < queries; i += kBlock)
    back = std::max(back, i / kBlock - memory.left(i) * memory.rate / kBlock);
  auto pairs = near_blocks(queries, kBlock, back, 0, device);
  if (keys > memory.first_slot) {
    const auto slots = slot_blocks(memory, queries, keys, device);
    pairs.columns = at::cat({pairs.columns, slots.unsqueeze(0).unsqueeze(0)}, -1);
    pairs.readers = 0;
  }
  return {pairs, {.memory = memory}};
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
// CPU, beside 32 tokens before and after them; others on a GPU in blocks of several times 64.
Window window_of(const Heads& heads, int64_t back, int64_t ahead, const Tensor& keep) {
  constexpr int64_t kHalf = 32;
  const int64_t whole = heads.q.is_cuda() ? 2 * kHalf : kHalf;
  const int64_t n = heads.q.size(2), side = std::max(back, ahead);
  const Visibility seen = {.back = back, .ahead = ahead, .keep = kept_keys(keep)};
  if (side <= kHalf && n > whole) return {blocks_around(n, whole, kHalf, heads.q.device()), seen};
  const int64_t wide = heads.q.is_cuda() ? (side + whole - 1) / whole * whole : side;
  const int64_t block = std::clamp<int64_t>(std::max(wide, kHalf), 1, n);
  const auto blocks = [&](int64_t reach) { return (reach + block - 1) / block; };
  return {near_blocks(n, block, blocks(back), blocks(ahead), heads.q.device()), seen};
}

PartialSoftmax read_window(const Heads& heads, int64_t back, int64_t ahead,
                           const Weighing& weighing, const Context& context, double scale) {
  const auto [pairs, seen] = window_of(heads, back, ahead, context.mask.keep);
  return read_blocks(heads.q, heads.k, heads.v, pairs, seen, weighing, context, {}, {}, scale);
}

}  // namespace longbow
