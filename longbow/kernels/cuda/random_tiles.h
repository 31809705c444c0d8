#pragma once
// What the passes over tokens with random features have in common.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/feature_tiles.h"
#include "longbow/kernels/exponent.h"
#include "longbow/kernels/random_product.h"

namespace longbow::kernels {

constexpr int kDepth = 64;  // D, channels of a head with their padding
constexpr int kStride = mma::padded(kDepth);

// The exponent of two, as maps are applied. It is rounded as numbers that were stored before:
// contracted with a subtraction it would not be, and then what stands for no exponent does not
// cancel.
__device__ inline float exponent_of_two(float x) {
  return __fmul_rn(x, kLog2E);
}

// What the map needs of each token: f; the offset or the amplitude; and |x|.
struct TokenNumbers {
  float *factor, *other, *length;
  __device__ TokenNumbers(float* place, int tokens)
      : factor(place), other(place + tokens), length(place + 2 * tokens) {}
};

// For all threads of a warp at once.
__device__ inline float peak_of(const RandomFeatures& x, int64_t group) {
  if (!x.peaks) return 0;
  float peak = -INFINITY;
  for (int64_t span = threadIdx.x % 32; span < x.peak_spans; span += 32)
    peak = fmaxf(peak, x.peaks[group * x.peak_spans + span]);
  for (int other = 1; other < 32; other *= 2)
    peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, other));
  return peak;
}

// Rows of x on their way, half as many as there are threads. What a token that is not kept holds is
// not read.
template <RandomMap kMap, int kThreads>
struct TokenStage {
  using Rows = Stage<kDepth, kThreads, kThreads / 2>;
  Rows x;
  uint32_t there = 0;  // a bit for each pack
  float offset = 0;    // that is given, of own_row()

  __device__ void load(const RandomFeatures& from, const Span& span, int64_t first) {
    x.load(rows_of(from.x, span.b, span.h), first, span.end, from.width);
    if (from.offset) {
      const int64_t n = first + Rows::own_row();
      const bool kept = n < span.end && (!from.keep || from.keep[span.b * from.tokens + n]);
      offset = kept ? from.offset[span.group * from.tokens + n] : INFINITY;
    }
    there = 0;
#pragma unroll
    for (int i = 0; i < Rows::kPacks; ++i) {
      const int64_t n = first + Rows::row(i);
      const bool kept = n < span.end && (!from.keep || from.keep[span.b * from.tokens + n]);
      if (!kept) x.pack[i] = {0, 0, 0, 0};
      there |= static_cast<uint32_t>(kept) << i;
    }
  }
  __device__ void store(const RandomFeatures& from, float peak, Number* tile,
                        const TokenNumbers& tokens) const {
    x.store(tile);
    if (kMap != RandomMap::trigonometric && from.offset) {
      tokens.factor[Rows::own_row()] = from.factor;
      tokens.other[Rows::own_row()] = offset;
      return;
    }
#pragma unroll
    for (int i = 0; i < Rows::kPacks; ++i) {
      float y[8], square = 0;
      spread(x.pack[i], y);
#pragma unroll
      for (const float number : y) square += number * number;
      for (int lane = 1; lane < kDepth / 8; lane *= 2)
        square += __shfl_xor_sync(0xffffffffu, square, lane);
      if (Rows::channel(i) > 0) continue;
      const int row = Rows::row(i);
      const bool kept = there >> i & 1;
      if constexpr (kMap != RandomMap::trigonometric) {
        tokens.factor[row] = from.factor;  // without features where it is not kept
        tokens.other[row] = kept ? from.factor * from.factor * square / 2 + peak : INFINITY;
      } else {
        const float length = sqrtf(square);
        tokens.factor[row] = 1 / (length + 1e-3f);
        tokens.other[row] = kept ? from.scale : 0;
        tokens.length[row] = length;
      }
    }
  }
};

// [rows, D] of bfloat16 without gaps, that of one head, to shared memory.
__device__ inline void fill_matrix(Number* to, const Number* from, int rows, int threads) {
  const auto* packs = reinterpret_cast<const uint4*>(from);
  for (int i = static_cast<int>(threadIdx.x); i < rows * (kDepth / 8); i += threads)
    *reinterpret_cast<uint4*>(to + i / (kDepth / 8) * kStride + i % (kDepth / 8) * 8) = packs[i];
}
__device__ inline const Number* matrix_of(const void* all, int64_t stride, const Span& span) {
  return static_cast<const Number*>(all) + span.h * stride;
}

// Sums [rows, D] of float32 to shared memory as bfloat16, what is left to `low` if that is there,
// and z beside them.
__device__ inline void fill_sums(Number* high, Number* low, float* z, const float* from, int rows,
                                 int threads) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * (kDepth / 2); i += threads) {
    const int r = i / (kDepth / 2), d = i % (kDepth / 2) * 2;
    const float* row = from + r * (kDepth + 4);
    const float2 sum = *reinterpret_cast<const float2*>(row + d);
    const uint32_t top = mma::pack<Number>(sum.x, sum.y);
    *reinterpret_cast<uint32_t*>(high + r * kStride + d) = top;
    if (low) {
      const float2 rounded = mma::unpack<Number>(top);
      *reinterpret_cast<uint32_t*>(low + r * kStride + d) =
          mma::pack<Number>(sum.x - rounded.x, sum.y - rounded.y);
    }
    if (d == 0) z[r] = row[kDepth];
  }
}

// 16 rows [16, D] as the left factor.
struct Rows16 {
  mma::A part[kDepth / 16];
  __device__ explicit Rows16(const Number* rows) {
#pragma unroll
    for (int d = 0; d < kDepth / 16; ++d) part[d] = mma::a_of_rows(rows + d * 16, kStride);
  }
  // c [16, 16] += these times 16 rows of a matrix, transposed.
  __device__ void times_transposed(mma::C (&c)[2], const Number* matrix) const {
#pragma unroll
    for (int d = 0; d < kDepth / 16; ++d) {
      const mma::TwoB b = mma::b_of_columns(matrix + d * 16, kStride);
      mma::multiply<Number>(c[0], part[d], b.tile[0]);
      mma::multiply<Number>(c[1], part[d], b.tile[1]);
    }
  }
};
// c [16, D] += a [16, 16] times 16 rows of a matrix, for each pair of c and a.
template <int kCount>
__device__ inline void times_rows(mma::C (*const (&c)[kCount])[kDepth / 8],
                                  const mma::A (&a)[kCount], const Number* matrix) {
#pragma unroll
  for (int n = 0; n < kDepth / 16; ++n) {
    const mma::TwoB b = mma::b_of_rows(matrix + n * 16, kStride);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      mma::multiply<Number>((*c[i])[2 * n], a[i], b.tile[0]);
      mma::multiply<Number>((*c[i])[2 * n + 1], a[i], b.tile[1]);
    }
  }
}

// A number of a token as `feature` takes it.
template <RandomMap kMap>
__device__ inline float for_map(float number) {
  return kMap == RandomMap::trigonometric ? number : number * kLog2E;
}
// One feature, or two, of a projection.
template <RandomMap kMap>
__device__ inline float2 feature(float u, float factor, float other) {
  if constexpr (kMap == RandomMap::exponential) return {mma::power_of_two(u * factor - other), 0};
  if constexpr (kMap == RandomMap::mirrored)
    return {mma::power_of_two(u * factor - other), mma::power_of_two(-u * factor - other)};
  float sine, cosine;
  __sincosf(u * factor, &sine, &cosine);
  return {sine * other, cosine * other};
}

// Projections of 16 tokens on 16 rows become their features, in two sets. `left` of the rows are
// not padding.
template <RandomMap kMap>
__device__ inline void apply_map(mma::C (&phi)[2][2], const float (&factor)[2],
                                 const float (&other)[2], int left) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float &first = phi[0][i / 4].part[i % 4], &second = phi[1][i / 4].part[i % 4];
    const float2 both = feature<kMap>(first, factor[i % 4 / 2], other[i % 4 / 2]);
    first = both.x;
    second = both.y;
  }
  if (left >= 16) return;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (i / 4 * 8 + 2 * t + i % 2 >= left)
      phi[0][i / 4].part[i % 4] = phi[1][i / 4].part[i % 4] = 0;
}

// The largest projections of 16 tokens so far, or their sizes, of which this thread has met some
// columns.
__device__ inline void take_largest(float (&most)[2], const mma::C (&u)[2], int left,
                                    bool sizes = false) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (left < 16 && i / 4 * 8 + 2 * t + i % 2 >= left) continue;
    const float one = u[i / 4].part[i % 4];
    most[i % 4 / 2] = fmaxf(most[i % 4 / 2], sizes ? fabsf(one) : one);
  }
}

// Of the exponential map: from the gradient of f u to that of x, 16 rows. `sums`: of the gradient
// over the projections. Of keys the offset has a gradient too, but not its peak; of queries it is
// constant.
__device__ inline void put_exponents(Number* to, const Number* x, const mma::C (&du)[kDepth / 8],
                                     const float (&sums)[2], bool queries, float factor) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const float each = queries ? 0 : factor * factor, along[2] = {each * sums[0], each * sums[1]};
#pragma unroll
  for (int i = 0; i < kDepth / 4; ++i) {
    const int place = (g + i % 2 * 8) * kStride + i / 2 * 8 + 2 * t;
    const float* slope = du[i / 2].part + i % 2 * 2;
    const float2 was = mma::unpack<Number>(*reinterpret_cast<const uint32_t*>(x + place));
    *reinterpret_cast<uint32_t*>(to + place) = mma::pack<Number>(
        factor * slope[0] - along[i % 2] * was.x, factor * slope[1] - along[i % 2] * was.y);
  }
}
// Of the trigonometric map: from the gradient of f u to that of x, 16 rows, which take the place of
// x.
__device__ inline void put_angles(Number* x, const mma::C (&du)[kDepth / 8], const float* sigmas,
                                  const TokenNumbers& tokens, int row,
                                  float (&dsigma)[kDepth / 8][2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    auto* line = x + (g + 8 * low) * kStride + 2 * t;
    const float factor = tokens.factor[row + g + 8 * low];
    // x f with f = 1 / (|x| + 1e-3) changes by f across x, and less along it.
    float product = 0, along = 0;
#pragma unroll
    for (int n = 0; n < kDepth / 8; ++n) {
      const float2 was = mma::unpack<Number>(*reinterpret_cast<uint32_t*>(line + n * 8));
      const float *sigma = sigmas + n * 8 + 2 * t, *slope = du[n].part + 2 * low;
      product += was.x * sigma[0] * slope[0] + was.y * sigma[1] * slope[1];
      dsigma[n][0] += factor * was.x * slope[0];
      dsigma[n][1] += factor * was.y * slope[1];
    }
    product += __shfl_xor_sync(0xffffffffu, product, 1);
    product += __shfl_xor_sync(0xffffffffu, product, 2);
    const float length = tokens.length[row + g + 8 * low];
    if (length > 0) along = factor * factor * product / length;
#pragma unroll
    for (int n = 0; n < kDepth / 8; ++n) {
      auto* place = reinterpret_cast<uint32_t*>(line + n * 8);
      const float2 was = mma::unpack<Number>(*place);
      const float *sigma = sigmas + n * 8 + 2 * t, *slope = du[n].part + 2 * low;
      *place = mma::pack<Number>(factor * sigma[0] * slope[0] - along * was.x,
                                 factor * sigma[1] * slope[1] - along * was.y);
    }
  }
}

// Rows of 16 queries in float32, of which `left` are there: what they read, by the factors of the
// rows g and g + 8. The backward pass wants more digits than the output has.
__device__ inline void put_exact(float* exact, const mma::C (&values)[kDepth / 8],
                                 const float (&factor)[2], int64_t left) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    if (g + 8 * low >= left) continue;
    float* row = exact + (g + 8 * low) * kDepth + 2 * t;
#pragma unroll
    for (int n = 0; n < kDepth / 8; ++n)
      *reinterpret_cast<float2*>(row + n * 8) = {values[n].part[2 * low] * factor[low],
                                                 values[n].part[2 * low + 1] * factor[low]};
  }
}
// The columns of 16 queries, dlog_sum / d - out . y, or 0 where d does not depend on the weights:
// in shared memory, and of those that are there in `all`. Without dlog_sum that is 0.
__device__ inline void put_columns(float* column, float* all, const float* exact,
                                   const float* inverse, const Number* y, int64_t left,
                                   const float* dlog_sum = nullptr) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    const int row = g + 8 * low;
    const bool there = row < left, divided = there && inverse[row] > 0;
    float sum = 0;
    if (divided)
#pragma unroll
      for (int d = 2 * t; d < kDepth; d += 8) {
        const float2 out = *reinterpret_cast<const float2*>(exact + row * kDepth + d),
                     slope = mma::unpack<Number>(
                         *reinterpret_cast<const uint32_t*>(y + row * kStride + d));
        sum -= out.x * slope.x + out.y * slope.y;
      }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (divided && dlog_sum) sum += dlog_sum[row] * inverse[row];
    if (t == 0) column[row] = sum;
    if (t == 0 && there) all[row] = sum;
  }
  __syncwarp();
}

// Sums over tokens, which each thread has of its columns, over the warps: out [D].
template <int kWarps>
__device__ inline void add_up(float (&sums)[kDepth / 8][2], float* by_warp, float* out) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
#pragma unroll
  for (int i = 0; i < kDepth / 4; ++i) {
    float& sum = sums[i / 2][i % 2];
    for (int lanes = 4; lanes < 32; lanes *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (lane < 4) by_warp[warp * kDepth + i / 2 * 8 + 2 * lane + i % 2] = sum;
  }
  __syncthreads();
  if (thread >= kDepth) return;
  float sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += by_warp[w * kDepth + thread];
  out[thread] = sum;
}

}  // namespace longbow::kernels
#endif
