#pragma once
// Pairs of tokens of a chunk whose rows fade each its own way. A block has a chunk, a warp the 16
// tokens of a part. Of pairs with other parts or chunks both sides fade toward a place between
// them, so that they are a product on tensor cores. Within a part each pair and channel has its
// exponent.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/decay_tiles.h"

namespace longbow::kernels {

// The sums at the start of a chunk, or at its end.
template <int P, int Q>
__device__ inline void load_sums(Number* to, const void* all, const Chunk& chunk, int64_t after) {
  const Number* from = static_cast<const Number*>(all) +
                       (chunk.group * (chunk.count + 1) + chunk.index + after) * P * Q;
  for (int i = static_cast<int>(threadIdx.x); i < P * Q / 8; i += kDecayThreads)
    *reinterpret_cast<uint4*>(to + i / (Q / 8) * mma::padded(Q) + i % (Q / 8) * 8) =
        *reinterpret_cast<const uint4*>(from + i * 8);
}

// Decays of a thread's channels in the left factor of a product, added up over parts.
template <int P>
struct Between {
  float sum[P / 16][4] = {};

  __device__ inline void add(const float* whole) {
    const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int k = 0; k < P / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[k][i] += whole[k * 16 + i / 2 * 8 + 2 * t + i % 2];
  }
};

// 16 rows as a left factor, times 2 to the decays of each number: from the start of the part, or to
// its end, and those between.
template <int P>
__device__ inline void fade_left(mma::A (&a)[P / 16], const Number* rows,
                                 const DecayTile<P>& decays, const Between<P>& between,
                                 bool until_end, float scale) {
  const int lane = static_cast<int>(threadIdx.x) % 32, part = static_cast<int>(threadIdx.x) / 32,
            g = lane / 4, t = lane % 4;
#pragma unroll
  for (int k = 0; k < P / 16; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8, channel = k * 16 + i / 2 * 8 + 2 * t;
      const float2 x = mma::unpack<Number>(
          *reinterpret_cast<const uint32_t*>(rows + row * mma::padded(P) + channel));
      float2 sum = *reinterpret_cast<const float2*>(decays.row(part * kPart + row) + channel);
      if (until_end) {
        const float2 all = *reinterpret_cast<const float2*>(decays.whole + part * P + channel);
        sum = {all.x - sum.x, all.y - sum.y};
      }
      const float* more = between.sum[k] + i / 2 * 2;
      a[k].part[i] = mma::pack<Number>(x.x * scale * faded(sum.x + more[0]),
                                       x.y * scale * faded(sum.y + more[1]));
    }
}

__device__ inline void spread_four(const Number* from, float (&x)[4]) {
  const uint2 words = *reinterpret_cast<const uint2*>(from);
  const float2 left = mma::unpack<Number>(words.x), right = mma::unpack<Number>(words.y);
  x[0] = left.x, x[1] = left.y, x[2] = right.x, x[3] = right.y;
}

// The pairs of a part: of queries x (rows of the product) with keys y up to their own or,
// transposed, of keys with queries from their own on. Others may overflow and become zero behind
// all channels.
template <int P, bool kTransposed>
__device__ inline void own_pairs(mma::C (&pairs)[2], const Number* own, const Number* other,
                                 const float* decays, float scale) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  constexpr int kStride = DecayTile<P>::kStride;
#pragma unroll 2
  for (int c = 0; c < P; c += 4) {
    float row[2][4], row_sum[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      spread_four(own + (g + 8 * m) * mma::padded(P) + c, row[m]);
      const float4 sum = *reinterpret_cast<const float4*>(decays + (g + 8 * m) * kStride + c);
      row_sum[m][0] = sum.x, row_sum[m][1] = sum.y, row_sum[m][2] = sum.z, row_sum[m][3] = sum.w;
    }
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = n * 8 + 2 * t + i;
        float column[4];
        spread_four(other + at * mma::padded(P) + c, column);
        const float4 sum = *reinterpret_cast<const float4*>(decays + at * kStride + c);
        const float column_sum[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          if (kTransposed ? n < m : n > m) continue;  // later than all of these queries
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float between =
                kTransposed ? column_sum[e] - row_sum[m][e] : row_sum[m][e] - column_sum[e];
            pairs[n].part[2 * m + i] += row[m][e] * column[e] * faded(between);
          }
        }
      }
  }
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = g + i / 2 * 8, column = n * 8 + 2 * t + i % 2;
      const bool seen = kTransposed ? column >= row : column <= row;
      pairs[n].part[i] = seen ? pairs[n].part[i] * scale : 0;
    }
}

}  // namespace longbow::kernels
#endif
