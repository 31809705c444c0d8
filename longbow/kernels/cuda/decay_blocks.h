#pragma once
// Sums whose columns fade by blocks: a thread block has a chunk of 128 tokens, a warp 16 of them,
// and walks over the blocks, whose tiles arrive while those before are worked on. Products of rows
// are formed once for all blocks. Pairs of tokens of two parts of 16 fade toward a place between
// the parts: a factor for each row and one for each column. Within a part each pair has its own.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/part_products.h"
#include "longbow/kernels/decayed_product.h"

namespace longbow::kernels {

constexpr int kChunk = kBlockChunk, kWarps = kChunk / 16, kBlockThreads = 32 * kWarps;

// Which 16 tokens of the chunk this warp has, one of kWarps or of twice as many. Later tokens see
// more pairs, so that warps that share a quarter of a multiprocessor, each fourth, have early and
// late ones.
__device__ inline int part_of(int warp) {
  const int part = warp % kWarps;
  return part < kWarps / 2 ? part : kWarps + kWarps / 2 - 1 - part;
}
__device__ inline int own_part() {
  return part_of(static_cast<int>(threadIdx.x) / 32);
}

// The chunk of this thread block.
struct BlockChunk {
  int index, count, group, b, h, first, end;

  __device__ explicit BlockChunk(const DecayedBlocks& of)
      : index(static_cast<int>(blockIdx.x)),
        count(static_cast<int>(gridDim.x)),
        group(static_cast<int>(blockIdx.y)),
        b(group / static_cast<int>(of.heads)),
        h(group % static_cast<int>(of.heads)),
        first(index * kChunk),
        end(static_cast<int>(of.tokens)) {}
  // The columns of one block of them.
  __device__ HeadRows columns(const ByHead& all, const DecayedBlocks& of, int block) const {
    auto rows = rows_of(all, b, h);
    rows.data += block * of.depth;
    return rows;
  }
  // The sums of a block before this chunk, or after it.
  __device__ HeadRows sums(const void* all, const DecayedBlocks& of, int block, int P, int Q,
                           int after) const {
    return {static_cast<Number*>(const_cast<void*>(all)) +
                ((group * of.blocks + block) * (count + 1) + index + after) * (P * Q),
            Q};
  }
  __device__ const float* decays(const DecayedBlocks& of, int block) const {
    return of.decays + ((group * of.blocks + block) * count + index) * 2 * kChunk;
  }
};

// Starts to copy kRows rows of W numbers, by this warp alone; zeros where there are none.
template <int W, int kRows, int kStride = mma::padded(W)>
__device__ inline void copy_rows(Number* tile, const HeadRows& from, int first, int end,
                                 int64_t width) {
  constexpr int kPacks = W / 8, kAtOnce = 32 / kPacks;
  static_assert(kRows % kAtOnce == 0);
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane / kPacks,
            channel = lane % kPacks * 8, rows = channel < width ? end - first : 0;
  const Number* place = from.data + (first + row) * from.stride + channel;
  Number* to = tile + row * kStride + channel;
#pragma unroll
  for (int i = 0; i < kRows / kAtOnce; ++i) {
    const bool there = row + i * kAtOnce < rows;
    mma::copy_async(to + i * kAtOnce * kStride, there ? place : from.data, there);
    place += kAtOnce * from.stride;
  }
}
// The rows of a tile of the chunk's tokens that belong to this warp.
template <int W>
__device__ inline void copy_own(Number* tile, const HeadRows& from, const BlockChunk& chunk,
                                int64_t width) {
  const int own = own_part() * 16;
  copy_rows<W, 16>(tile + own * mma::padded(W), from, chunk.first + own, chunk.end, width);
}
// kRows rows of a block's sums from `first` on.
template <int Q, int kRows>
__device__ inline void copy_sums(Number* tile, const HeadRows& from, int first) {
  copy_rows<Q, kRows>(tile + first * mma::padded(Q), from, first, first + kRows, Q);
}
// All copies but those of the last stage have arrived, if there are two of them.
__device__ inline void await_stage(int stages) {
  stages == 2 ? mma::await_copies<1>() : mma::await_copies<0>();
}
// Two stages where there is memory for them.
template <class Memory>
int most_stages() {
  static const int stages = Memory::bytes(2) <= static_cast<size_t>(most_dynamic_memory()) ? 2 : 1;
  return stages;
}

// The decay from one token to another, of a token and one that may be later: then nothing fades.
__device__ inline float between(float later, float earlier) {
  return mma::power_of_two(fminf(later - earlier, 0));
}

// Rows of a left factor, each times its number.
template <int W>
__device__ inline void scale_rows(mma::A (&a)[W / 16], float upper, float lower) {
#pragma unroll
  for (int k = 0; k < W / 16; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = mma::unpack<Number>(a[k].part[i]);
      const float by = i % 2 == 0 ? upper : lower;
      a[k].part[i] = mma::pack<Number>(two.x * by, two.y * by);
    }
}
// c = c times the number of its row + rows by a number, of rows in shared memory.
template <int W>
__device__ inline void scale_and_add(mma::C (&c)[W / 8], float upper, float lower,
                                     const Number* rows, float by) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < W / 8; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 two = mma::unpack<Number>(*reinterpret_cast<const uint32_t*>(
          rows + (g + 8 * half) * mma::padded(W) + n * 8 + 2 * t));
      const float scale = half == 0 ? upper : lower;
      float* part = c[n].part + 2 * half;
      part[0] = part[0] * scale + by * two.x;
      part[1] = part[1] * scale + by * two.y;
    }
}

// Products of the rows of two parts as left factors of another product: each lane's in 16 bytes.
constexpr int kPairs = kWarps * (kWarps + 1) / 2 * 32;
__device__ inline uint4 four_of(const mma::A& a) {
  return {a.part[0], a.part[1], a.part[2], a.part[3]};
}

// A lane's numbers of the columns of a part: 2t and 2t + 1, and 8 behind these.
struct OfColumns {
  float2 left, right;

  __device__ OfColumns(const float* part) {
    const float* place = part + static_cast<int>(threadIdx.x) % 4 * 2;
    left = *reinterpret_cast<const float2*>(place);
    right = *reinterpret_cast<const float2*>(place + 8);
  }
  __device__ const float2& operator[](int n) const { return n == 0 ? left : right; }
};

// Gradients: two warps have each part, as keys half of the later parts each, or one of them as
// queries.
constexpr int kTwice = 2 * kBlockThreads, kSpread = 2 * kWarps;

// What the pairs give the decays of tokens, of a block, and at the last token what dA gives keys.
__device__ inline float* found_of(const BlockGradient& task, const BlockChunk& chunk, int block) {
  return task.found +
         ((chunk.group * task.blocks.blocks + block) * chunk.count + chunk.index) * kChunk;
}
// W of keys (rows) and queries of the chunk.
__device__ inline HeadRows weights_of(const BlockGradient& task, const BlockChunk& chunk) {
  return {static_cast<Number*>(task.weights) +
              (int64_t{chunk.group} * chunk.count + chunk.index) * (kChunk * kChunk),
          kChunk};
}
__device__ inline int64_t decay_place(const BlockGradient& task, const BlockChunk& chunk,
                                      int64_t token, int block) {
  return chunk.b * task.ddecays_batch + chunk.h * task.ddecays_head +
         (chunk.first + token) * task.ddecays_token + block;
}

inline dim3 chunk_blocks(const DecayedBlocks& of) {
  return {static_cast<unsigned>(of.chunks()), static_cast<unsigned>(of.batch * of.heads)};
}

// Calls body with P and Q as constants.
template <class F>
void with_block_shape(const DecayShape& shape, const F& body) {
  if (shape.rows == 32) return body.template operator()<32, 64>();
  if (shape.rows == 64) return body.template operator()<64, 64>();
  body.template operator()<128, 64>();
}

}  // namespace longbow::kernels
#endif
