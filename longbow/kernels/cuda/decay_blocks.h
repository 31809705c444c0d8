#pragma once
// Sums whose columns fade by blocks: a thread block has a chunk of 128 tokens, a warp 16 of them,
// and walks over the blocks, whose tiles arrive while those before are worked on. Products of rows
// are formed once for all blocks.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/part_products.h"
#include "longbow/kernels/decayed_product.h"

namespace longbow::kernels {

constexpr int kChunk = kBlockChunk, kWarps = kChunk / 16, kBlockThreads = 32 * kWarps;

// The chunk of this thread block.
struct BlockChunk {
  int64_t index, count, group, b, h, first, end;

  __device__ explicit BlockChunk(const DecayedBlocks& of)
      : index(blockIdx.x),
        count(gridDim.x),
        group(blockIdx.y),
        b(group / of.heads),
        h(group % of.heads),
        first(index * kChunk),
        end(of.tokens) {}
  // The columns of one block of them.
  __device__ HeadRows columns(const ByHead& all, const DecayedBlocks& of, int64_t block) const {
    auto rows = rows_of(all, b, h);
    rows.data += block * of.depth;
    return rows;
  }
  // The sums of a block before this chunk, or after it.
  __device__ HeadRows sums(const void* all, const DecayedBlocks& of, int64_t block, int P, int Q,
                           int64_t after) const {
    return {static_cast<Number*>(const_cast<void*>(all)) +
                ((group * of.blocks + block) * (count + 1) + index + after) * P * Q,
            Q};
  }
  __device__ const float* decays(const DecayedBlocks& of, int64_t block) const {
    return of.decays + ((group * of.blocks + block) * count + index) * kChunk;
  }
};

// Starts to copy the rows of a tile that belong to this warp, an eighth of them; zeros where there
// are none.
template <int W, int kRows>
__device__ inline void copy_own(Number* tile, const HeadRows& from, int64_t first, int64_t end,
                                int64_t width) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  constexpr int kOwn = kRows / kWarps, kPacks = W / 8;
  for (int i = lane; i < kOwn * kPacks; i += 32) {
    const int row = warp * kOwn + i / kPacks, channel = i % kPacks * 8;
    const bool there = first + row < end && channel < width;
    mma::copy_async(tile + row * mma::padded(W) + channel,
                    there ? from.data + (first + row) * from.stride + channel : from.data, there);
  }
}
__device__ inline void copy_decays(float* to, const float* from) {
  if (threadIdx.x < kChunk / 4) mma::copy_async(to + threadIdx.x * 4, from + threadIdx.x * 4, true);
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
