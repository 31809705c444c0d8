#pragma once
// Features by number, formed on the way from global to shared memory, and their products with sums.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/feature_tiles.h"

namespace longbow::kernels {

constexpr int kReadThreads = 128;  // of a block in which each of four warps owns 16 tokens

// How many blocks with so much shared memory a multiprocessor holds, but not more than `most`.
constexpr int resident(size_t bytes, int most) {
  constexpr size_t kAll = 228 * 1024, kEach = 1024;
  const size_t fit = kAll / (bytes + kEach);
  return fit < static_cast<size_t>(most) ? static_cast<int>(fit) : most;
}

// Each number becomes its feature, or the slope of the map there. Branches are taken once for all
// of them: in place of one for each number its argument is selected.
template <int N>
__device__ inline void apply_map(FeatureMap map, float (&x)[N]) {
  const auto each = [&](auto feature) {
#pragma unroll
    for (float& number : x) number = feature(number);
  };
  switch (map) {
    case FeatureMap::relu:
      return each([](float y) { return y < 0 ? 0 : y; });
    case FeatureMap::elu:
      return each([](float y) { return (y > 0 ? y : 0) + __expf(y > 0 ? 0 : y); });
    case FeatureMap::square:
      return each([](float y) { return y * y; });
    case FeatureMap::exp:
      return each([](float y) { return __expf(y > 35 ? 35 : y); });
    default:
      return;
  }
}
template <int N>
__device__ inline void apply_slope(FeatureMap map, float (&x)[N]) {
  const auto each = [&](auto slope) {
#pragma unroll
    for (float& number : x) number = slope(number);
  };
  switch (map) {
    case FeatureMap::relu:
      return each([](float y) -> float { return y > 0 ? 1 : 0; });
    case FeatureMap::elu:
      return each([](float y) { return __expf(y > 0 ? 0 : y); });
    case FeatureMap::square:
      return each([](float y) { return 2 * y; });
    case FeatureMap::exp:
      return each([](float y) { return __expf(y > 35 ? -INFINITY : y); });
    default:
      return each([](float) -> float { return 1; });
  }
}

// What the features of a token are multiplied by. `load` only asks for it: whatever is done with it
// waits until it is there.
template <bool kTurned>
struct Turn {
  float2 by = {1, 0};
  uint32_t kept = 0;

  __device__ void load(const Features& x, int64_t b, int64_t n, int64_t end) {
    kept = 0;
    if (n >= end) return;
    kept = x.keep ? reinterpret_cast<const uint8_t*>(x.keep)[b * x.tokens + n] : 1;
    if constexpr (kTurned) by = reinterpret_cast<const float2*>(x.turns + b * x.turns_batch)[n];
  }
  __device__ float2 get() const { return kept ? by : float2{0, 0}; }
};
template <bool kTurned>
__device__ inline float2 turn_of(const Features& x, int64_t b, int64_t n, int64_t end) {
  Turn<kTurned> turn;
  turn.load(x, b, n, end);
  return turn.get();
}

// Rows of x on their way to features. A token without any counts as 0, so that nothing it holds
// is read.
template <int R, bool kTurned, int kThreads>
struct FeatureStage {
  static constexpr int kWidth = kTurned ? R / 2 : R;
  using Rows = Stage<kWidth, kThreads>;
  Rows x;
  float2 turn[kTurned ? Rows::kPacks : 1];
  Turn<false> own;  // of the row that this lane looks at
  bool there;       // these channels are not padding

  __device__ void load(const Features& from, const Span& span, int64_t first) {
    x.load(rows_of(from.x, span.b, span.h), first, span.end, from.width);
    there = Rows::channel(0) < from.width;
    own.load(from, span.b, first + Rows::own_row(), span.end);
    if constexpr (kTurned) {
      const auto* turns = reinterpret_cast<const float2*>(from.turns + span.b * from.turns_batch);
#pragma unroll
      for (int i = 0; i < Rows::kPacks; ++i) {
        const int64_t n = first + Rows::row(i);
        turn[i] = n < span.end ? turns[n] : float2{0, 0};
      }
    }
  }
  __device__ void store(FeatureMap map, Number* phi) {
    const uint32_t kept = __ballot_sync(0xffffffffu, own.kept != 0);
#pragma unroll
    for (int i = 0; i < Rows::kPacks; ++i) {
      const bool has = there && (kept >> Rows::lane_of(i) & 1);
      if (!has) x.pack[i] = {0, 0, 0, 0};
      float y[8], part[8];
      spread(x.pack[i], y);
      apply_map(map, y);
      if constexpr (kTurned) {
#pragma unroll
        for (int j = 0; j < 8; ++j) part[j] = y[j] * turn[i].x;
        Rows::put(phi, mma::padded(R), i, has ? packed(part) : uint4{0, 0, 0, 0});
#pragma unroll
        for (int j = 0; j < 8; ++j) part[j] = y[j] * turn[i].y;
        Rows::put(phi + kWidth, mma::padded(R), i, has ? packed(part) : uint4{0, 0, 0, 0});
      } else {
        Rows::put(phi, mma::padded(R), i, has ? packed(y) : uint4{0, 0, 0, 0});
      }
    }
  }
};

// [16, D] += phi [16, R] S.
template <int R, int D>
__device__ inline void times_sums(mma::C (&out)[D / 8], const Number* phi,
                                  const SplitSums<R, D>& sums) {
#pragma unroll 4
  for (int k = 0; k < R; k += 16) {
    const mma::A a = mma::a_of_rows(phi + k, mma::padded(R));
#pragma unroll
    for (int n = 0; n < D / 16; ++n)
#pragma unroll
      for (const Number* part : {sums.high, sums.low}) {
        const mma::TwoB b = mma::b_of_rows(part + k * sums.kStride + n * 16, sums.kStride);
        mma::multiply<Number>(out[2 * n], a, b.tile[0]);
        mma::multiply<Number>(out[2 * n + 1], a, b.tile[1]);
      }
  }
}

// What 16 queries, those of this warp, are divided by.
struct Divisors {
  float factor[2], kept[2];  // of the rows g and g + 8: of the output, and for the backward pass

  __device__ void write(float* inverse, int64_t first, int64_t end) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t n = first + lane / 4;
    if (lane % 4 > 0) return;
    if (n < end) inverse[n] = kept[0];
    if (n + 8 < end) inverse[n + 8] = kept[1];
  }
};
// From the product of features and z, which stands in the columns 0 and 1.
template <class Task>
__device__ inline Divisors divisors(const mma::C& weights, const Task& task) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Divisors found;
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    const float w =
        __shfl_sync(0xffffffffu, weights.part[2 * low] + weights.part[2 * low + 1], lane & ~3);
    const bool divided = w + task.added >= task.least;
    const float inverse = 1 / (divided ? w + task.added : task.least);
    found.factor[low] = task.normalised ? inverse : 1;
    found.kept[low] = !task.normalised ? w : divided ? inverse : -inverse;
  }
  return found;
}

// The columns of this warp's 16 queries, -(values . y) / d, or 0. The values have as many digits as
// dphi has without the column, or the difference of the two would have few.
template <int D>
__device__ inline void put_column(float* column, const mma::C (&values)[D / 8], const Number* y,
                                  const float* inverse, int64_t left) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    const int row = g + 8 * low;
    float product = 0;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const float2 two = mma::unpack<Number>(
          *reinterpret_cast<const uint32_t*>(y + row * mma::padded(D) + n * 8 + 2 * t));
      product += two.x * values[n].part[2 * low] + two.y * values[n].part[2 * low + 1];
    }
    product += __shfl_xor_sync(0xffffffffu, product, 1);
    product += __shfl_xor_sync(0xffffffffu, product, 2);
    const float factor = row < left ? inverse[row] : 0;
    if (t == 0) column[row] = factor > 0 ? -product * factor : 0;
  }
  __syncwarp();
}

template <int R>
__device__ inline void fill_last(float* z, const float* sums, int row) {
  for (int r = static_cast<int>(threadIdx.x); r < R; r += kReadThreads) z[r] = sums[r * row];
}

}  // namespace longbow::kernels
#endif
