#pragma once
// Softmax attention over blocks of tokens, as mechanisms use it.
#include "longbow/nn/softmax/partial_softmax.h"
#include "longbow/nn/softmax/softmax.h"
#include "longbow/ops/block_softmax.h"

namespace longbow {

// Every block reads its own, `back` blocks before it and `ahead` blocks after it.
BlockPairs near_blocks(int64_t tokens, int64_t block, int64_t back, int64_t ahead,
                       at::Device device);
// A block of queries reads its own tokens and `side` tokens before and after them.
BlockPairs blocks_around(int64_t tokens, int64_t block, int64_t side, at::Device device);

// keep [B, M] as Visibility has it; undefined stays so.
Tensor kept_keys(const Tensor& keep);  // [B, 1, M]

// What the listed keys say, so that parts over other keys can be added; `scale` is that of scores.
PartialSoftmax read_blocks(const Tensor& q, const Tensor& k, const Tensor& v,
                           const BlockPairs& pairs, const Visibility& visibility,
                           const Weighing& weighing, const Context& context,
                           const Tensor& bias = {}, const Distances& distances = {},
                           double scale = 1);
// Which blocks queries read, and what of them.
struct Window {
  BlockPairs pairs;
  Visibility seen;
};
// What each of so many queries remembers, of `keys` keys and slots. The first slot begins a block.
constexpr int64_t kMemoryBlock = 64;
Window remembered_window(const RememberedKeys& memory, int64_t queries, int64_t keys,
                         at::Device device);
// Every query reads the keys with -ahead <= i - j <= back.
Window window_of(const Heads& heads, int64_t back, int64_t ahead, const Tensor& keep);
PartialSoftmax read_window(const Heads& heads, int64_t back, int64_t ahead,
                           const Weighing& weighing, const Context& context, double scale = 1);

}  // namespace longbow
