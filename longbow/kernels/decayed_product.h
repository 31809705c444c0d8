#pragma once
// Causal products whose sums fade, ops/decayed_product.h, in chunks of 64 tokens: each chunk's own
// sums, a scan over them, and reads of the sums before a chunk and of its own pairs. Numbers are
// bfloat16, and so are the sums before each chunk, which tensor cores read so anyway; decays, their
// sums and the sums after the last token are float32. P and Q are the rows and columns of a head's
// sums, padded to what decay_shape says. Tokens may run backwards, with negative strides.
#include <cstdint>

#include "longbow/kernels/feature_product.h"

namespace longbow::kernels {

constexpr int64_t kDecayChunk = 64;

// Logarithms of decays [B, H, tokens, channels], none positive.
struct Decays {
  const float* data = nullptr;
  int64_t batch = 0, head = 0, token = 0, channel = 0;
};

struct DecayShape {
  int64_t rows = 0, columns = 0;  // P and Q; 0 = there is no kernel
  int64_t size() const { return rows * columns; }
};
// Of `width` rows that fade each its own way, and `depth` columns.
constexpr DecayShape decay_shape(int64_t width, int64_t depth) noexcept {
  if (width <= 0 || depth <= 0 || width % 8 != 0 || depth % 8 != 0 || width > 64 || depth > 64)
    return {};
  return {width <= 32 ? 32 : 64, 64};
}
// Bytes of memory that the kernels need for a block of threads.
constexpr int64_t decay_memory(const DecayShape& shape) noexcept {
  return (shape.rows <= 32 ? 64 : 111) << 10;
}

struct DecayedHeads {
  DecayShape shape;
  Decays decays;
  int64_t batch, heads, tokens, width, depth;
  int64_t chunks() const { return (tokens + kDecayChunk - 1) / kDecayChunk; }
};

// Each chunk's own sums of rows and values: of keys, as they are at the end of the chunk; of
// queries, which are `scale` times their rows, as the chunk's start is asked for them.
struct DecayedSums {
  DecayedHeads heads;
  ByHead rows, values;
  bool queries;
  float scale;
  void* sums;    // [B H, chunks + 1, P, Q]: those of chunk i at i, of queries at i + 1
  float* whole;  // [B H, chunks, P]: the decays of whole chunks
};

// In place of the own sums those before each chunk and after the last, from `first` on; or, from
// the last chunk to the first, those after each chunk and before the first.
struct DecayScan {
  DecayShape shape;
  void* sums;          // [groups, blocks, chunks + 1, P, Q]
  const float* whole;  // [groups, blocks, chunks, P], or for each chunk one: whole_width = 1
  int64_t whole_width;
  const float* first;  // [groups, width, blocks, depth] or null
  float* last;         // [groups, width, blocks, depth]
  int64_t groups, blocks, chunks, width, depth;
  bool backwards;
};

// out_t = scale x_t A_t.
struct DecayedRead {
  DecayedHeads heads;
  ByHead x, y, z;
  float scale;
  const void* sums;  // before each chunk
  ByHead out;
};

struct DecayedGradient {
  DecayedHeads heads;
  ByHead x, y, z, dout;
  float scale;
  const void *sums, *dsums;  // before each chunk, and the gradients of those after each
  ByHead dx, dy, dz;
  float* ddecays;  // [B, H, tokens, width] with the strides
  int64_t ddecays_batch, ddecays_head, ddecays_token;
  bool add;  // to what dx, dy, dz and ddecays hold
};

// Columns that fade by blocks of `depth` of them, each of which has its own sums of the same rows:
// in chunks of 128 tokens.
constexpr int64_t kBlockChunk = 128, kMostBlocks = 64;

constexpr DecayShape block_shape(int64_t width, int64_t depth) noexcept {
  if (width <= 0 || depth <= 0 || width % 8 != 0 || depth % 8 != 0 || width > 128 || depth > 64)
    return {};
  return {width <= 32 ? 32 : width <= 64 ? 64 : 128, 64};
}
constexpr int64_t block_decay_memory(const DecayShape& shape) noexcept {
  return (shape.rows <= 32 ? 109 : shape.rows <= 64 ? 122 : 147) << 10;
}

struct DecayedBlocks {
  DecayShape shape;
  int64_t batch, heads, blocks, tokens, width, depth;
  // [B H, blocks, chunks, 2, 128]: logarithms to base 2, added up within a chunk; steps.
  float* decays;
  int64_t chunks() const { return (tokens + kBlockChunk - 1) / kBlockChunk; }
};

// From logarithms of decays, of which a channel is a block, and the steps by which values are
// multiplied before they are added to the sums; without data they are 1.
struct BlockDecays {
  DecayedBlocks blocks;
  Decays given, steps;
  float* whole;  // [B H, blocks, chunks]
};

// As DecayedSums; values are [B, H, tokens, blocks depth].
struct BlockSums {
  DecayedBlocks blocks;
  ByHead rows, values;
  bool queries;
  float scale;
  void* sums;  // [B H, blocks, chunks + 1, P, Q]
};

struct BlockRead {
  DecayedBlocks blocks;
  ByHead x, y, z;
  float scale;
  const void* sums;
  ByHead out;
  const float* skip = nullptr;  // [H, blocks] or null: z times it is added to what is read
};

struct BlockGradient {
  DecayedBlocks blocks;
  ByHead x, y, z, dout;
  float scale;
  const void *sums, *dsums;
  ByHead dx, dy, dz;
  float* ddecays;  // [B, H, tokens, blocks] with the strides
  int64_t ddecays_batch, ddecays_head, ddecays_token;
  const float* skip = nullptr;
  // As ddecays, or null where there are neither steps nor `skip`: the gradient of the steps, and
  // what each token gives that of `skip`.
  float *dsteps = nullptr, *dskip = nullptr;
  // What the pass of pairs leaves to the other: W, and what pairs give decays.
  void* weights;  // [B H, chunks, 128, 128]
  float* found;   // [B H, blocks, chunks, 128]
};

void block_decays_cuda(const BlockDecays& task, void* stream) noexcept;
void block_sums_cuda(const BlockSums& task, void* stream) noexcept;
void block_read_cuda(const BlockRead& task, void* stream) noexcept;
// First that of pairs, then the rest.
void block_pairs_gradient_cuda(const BlockGradient& task, void* stream) noexcept;
void block_gradient_cuda(const BlockGradient& task, void* stream) noexcept;
void decayed_sums_cuda(const DecayedSums& task, void* stream) noexcept;
void decay_scan_cuda(const DecayScan& task, void* stream) noexcept;
void decayed_read_cuda(const DecayedRead& task, void* stream) noexcept;
void decayed_gradient_cuda(const DecayedGradient& task, void* stream) noexcept;

}  // namespace longbow::kernels
