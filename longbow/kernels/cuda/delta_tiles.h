#pragma once
// The delta rule, a chunk of 64 tokens at a time: a warp has 16 of them. Tiles are [64, 64].
#ifdef __CUDACC__
#include "longbow/kernels/cuda/part_products.h"
#include "longbow/kernels/delta_product.h"

namespace longbow::kernels {

constexpr int D = kDeltaWidth, kDeltaTokens = kDeltaChunk, kDeltaWarps = kDeltaTokens / 16,
              kDeltaThreads = 32 * kDeltaWarps, kDeltaTile = kDeltaTokens * mma::padded(D);

struct DeltaPlace {
  int64_t group, b, h, tokens, chunks;

  __device__ DeltaPlace(const DeltaHeads& heads, int64_t of, int64_t count)
      : group(of), b(of / heads.heads), h(of % heads.heads), tokens(heads.tokens), chunks(count) {}
  __device__ HeadRows rows(const ByHead& all) const { return rows_of(all, b, h); }
  // Of chunk i, or of what stands between chunks.
  __device__ HeadRows inverse(const DeltaHeads& heads, int64_t i) const {
    return {static_cast<Number*>(heads.inverses) + (group * chunks + i) * kDeltaTokens * D, D};
  }
  __device__ HeadRows sums(const void* all, int64_t i) const {
    return {static_cast<Number*>(const_cast<void*>(all)) + (group * (chunks + 1) + i) * D * D, D};
  }
  __device__ float* decays(const DeltaHeads& heads, int64_t i) const {
    return heads.decays + (group * chunks + i) * kDeltaTokens;
  }
  __device__ float* number(const TokenNumbers& all, int64_t token) const {
    return all.data + b * all.batch + h * all.head + token * all.token;
  }
};

// Starts to copy 64 rows of W numbers; zeros where there are none.
template <int W>
__device__ inline void copy_rows(Number* tile, const HeadRows& from, int64_t first, int64_t end,
                                 int64_t width) {
  constexpr int kPacks = W / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kDeltaTokens * kPacks; i += kDeltaThreads) {
    const int row = i / kPacks, channel = i % kPacks * 8;
    const bool there = first + row < end && channel < width;
    mma::copy_async(tile + row * mma::padded(W) + channel,
                    there ? from.data + (first + row) * from.stride + channel : from.data, there);
  }
}
__device__ inline void copy_numbers(float* to, const float* from) {
  if (threadIdx.x < kDeltaTokens / 4)
    mma::copy_async(to + threadIdx.x * 4, from + threadIdx.x * 4, true);
}

// What a thread has of 16 rows and some columns: rows g and g + 8.
struct Lane {
  int warp, lane, g, t, own;
  __device__ Lane()
      : warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        g(lane / 4),
        t(lane % 4),
        own(warp * 16) {}
};

enum class Seen { earlier, up_to_own, own_and_later, later };

// Pairs of this warp's rows with those of a part: factor times the decay between them where they
// are seen, else 0.
template <Seen seen>
__device__ inline void fade_pairs(mma::C (&pairs)[2], int part, const float* decays, float factor) {
  const Lane at;
  constexpr bool kLater = seen == Seen::own_and_later || seen == Seen::later;
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = at.own + at.g + i / 2 * 8, column = part * 16 + n * 8 + 2 * at.t + i % 2;
      const bool is_seen = seen == Seen::earlier ? column < row

                           : seen == Seen::up_to_own ? column <= row
                           : seen == Seen::later     ? column > row
                                                     : column >= row;
      const float between = kLater ? decays[column] - decays[row] : decays[row] - decays[column];
      pairs[n].part[i] =
          is_seen ? pairs[n].part[i] * factor * mma::power_of_two(fminf(between, 0)) : 0;
    }
}

// Whether a part has pairs that are seen.
template <Seen seen>
__device__ inline bool is_seen(int part, int warp) {
  return seen == Seen::own_and_later || seen == Seen::later ? part >= warp : part <= warp;
}

// values [16, W] += (a . rows of `left`, faded) times those of `right`.
template <Seen seen, int W>
__device__ inline void add_pairs(mma::C (&values)[W / 8], const mma::A (&a)[D / 16],
                                 const Number* left, const Number* right, const float* decays,
                                 float factor) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int part = 0; part < kDeltaWarps; ++part)
    if (is_seen<seen>(part, warp)) {
      mma::C pairs[2] = {};
      times_columns<D>(pairs, a, left + part * 16 * mma::padded(D));
      fade_pairs<seen>(pairs, part, decays, factor);
      times_rows<W>(values, mma::a_of<Number>(pairs[0], pairs[1]),
                    right + part * 16 * mma::padded(W));
    }
}

// values [16, W] += a times 64 rows, or times 64 rows of 64, transposed.
template <int W>
__device__ inline void add_product(mma::C (&values)[W / 8], const mma::A (&a)[D / 16],
                                   const Number* rows) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k) times_rows<W>(values, a[k], rows + k * 16 * mma::padded(W));
}
__device__ inline void add_transposed(mma::C (&values)[D / 8], const mma::A (&a)[D / 16],
                                      const Number* rows) {
  auto& tiles = reinterpret_cast<mma::C(&)[D / 16][2]>(values);
#pragma unroll
  for (int n = 0; n < D / 16; ++n) times_columns<D>(tiles[n], a, rows + n * 16 * mma::padded(D));
}

// 16 rows of the transpose of a tile, those from `row` on, as a left factor.
__device__ inline void left_of_columns(mma::A (&a)[D / 16], const Number* tile, int row) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k)
    a[k] = mma::a_of_columns(tile + k * 16 * mma::padded(D) + row, mma::padded(D));
}

// blockIdx.z is the direction.
inline dim3 delta_blocks(const DeltaHeads& heads, int ways) {
  return {static_cast<unsigned>(heads.chunks()), static_cast<unsigned>(heads.batch * heads.heads),
          static_cast<unsigned>(ways)};
}

}  // namespace longbow::kernels
#endif
