#pragma once
// The decays of a chunk of 64 tokens in shared memory: as logarithms to base 2, added up within
// parts of 16 tokens. Every exponent is a sum over the tokens between two, so none is positive.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/part_products.h"
#include "longbow/kernels/decayed_product.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels {

constexpr int kPart = 16, kParts = kTile / kPart;  // tokens, a warp for each part
constexpr int kDecayThreads = 32 * kParts;
// 2^x is 0 from here on, and sums over a chunk keep their digits.
constexpr float kNothing = -150;

// The chunk of this block.
struct Chunk {
  int64_t index, count, group, b, h, first, end;

  __device__ explicit Chunk(const DecayedHeads& heads)
      : index(blockIdx.x),
        count(gridDim.x),
        group(blockIdx.y),
        b(group / heads.heads),
        h(group % heads.heads),
        first(index * kTile),
        end(heads.tokens) {}
};

__device__ inline float faded(float log_decay) {
  return mma::power_of_two(log_decay);
}

template <int P>
struct DecayTile {
  static constexpr int kStride = P + 4, kNumbers = kTile * kStride + kParts * P;
  float* within;  // [64, P]: from the first token of the part to each, with its own
  float* whole;   // [4, P]: of the part

  __device__ explicit DecayTile(float* place) : within(place), whole(place + kTile * kStride) {}

  __device__ void fill(const DecayedHeads& heads, const Chunk& chunk) const {
    const auto& from = heads.decays;
    for (int i = static_cast<int>(threadIdx.x); i < kParts * P; i += kDecayThreads) {
      const int part = i / P, channel = i % P;
      const int64_t first = chunk.first + part * kPart;
      const float* place =
          from.data + chunk.b * from.batch + chunk.h * from.head + channel * from.channel;
      float decay[kPart], sum = 0;
#pragma unroll
      for (int t = 0; t < kPart; ++t)
        decay[t] = first + t < chunk.end && channel < heads.width
                       ? place[(first + t) * from.token] * kLog2E
                       : 0;
#pragma unroll
      for (int t = 0; t < kPart; ++t) {
        sum += decay[t] < kNothing ? kNothing : decay[t];
        within[(part * kPart + t) * kStride + channel] = sum;
      }
      whole[i] = sum;
    }
  }

  __device__ const float* row(int token) const {
    return within + token * kStride;
  }
  // Of 8 channels, from the start of the token's part, or to its end.
  __device__ void since_start(int token, int channel, float (&sum)[8]) const {
    const float* from = row(token) + channel;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] = from[i];
  }
  __device__ void until_end(int token, int channel, float (&sum)[8]) const {
    const float *from = row(token) + channel, *all = whole + token / kPart * P + channel;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] = all[i] - from[i];
  }
};

// Rows in registers, times 2 to what exponent(token, channel, sum) says of 8 channels, to a tile.
template <int P, class F>
__device__ inline void store_faded(const Stage<P, kDecayThreads>& rows, Number* tile, float scale,
                                   const F& exponent) {
#pragma unroll
  for (int i = 0; i < Stage<P, kDecayThreads>::kPacks; ++i) {
    float x[8], sum[8];
    spread(rows.pack[i], x);
    exponent(rows.row(i), rows.channel(i), sum);
#pragma unroll
    for (int e = 0; e < 8; ++e) x[e] *= scale * faded(sum[e]);
    rows.put(tile, mma::padded(P), i, packed(x));
  }
}

inline dim3 chunk_blocks(const DecayedHeads& heads) {
  return {static_cast<unsigned>(heads.chunks()), static_cast<unsigned>(heads.batch * heads.heads)};
}

// Calls body with P and Q as constants.
template <class F>
void with_decay_shape(const DecayShape& shape, const F& body) {
  shape.rows == 32 ? body.template operator()<32, 64>() : body.template operator()<64, 64>();
}

}  // namespace longbow::kernels
#endif
