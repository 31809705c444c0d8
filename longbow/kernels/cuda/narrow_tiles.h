#pragma once
// Tokens of heads of up to 32 channels in the registers where tensor cores expect them. The order
// in which products add up their terms is free, and so is the order of their rows and columns.
//
// Where sums are read, a thread reads 16 bytes of each of the rows g and g + 8: the channels 8 t to
// 8 t + 7. Channel 8 t + 2 j + i with i < 2 is number 8 j + 2 t + i of the tiles A, B and C, so
// that a thread has the same channels in all of them.
// Where sums are formed, tokens are what products add up. A thread reads 8 bytes of each of four
// tokens: the channels 4 g to 4 g + 3. Of these, channel 4 g + e is number 8 e + g of a tile.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/feature_stage.h"
#include "longbow/kernels/feature_product.h"

namespace longbow::kernels::narrow {

constexpr int kWidth = static_cast<int>(kNarrow), kTiles = kWidth / 8;
constexpr int kRowWords = kWidth + 4;         // of sums in global memory
constexpr int kStride = mma::padded(kWidth);  // of sums in shared memory

struct Lane {
  int warp = static_cast<int>(threadIdx.x) / 32, g = static_cast<int>(threadIdx.x) % 32 / 4,
      t = static_cast<int>(threadIdx.x) % 4;
};

// Some channels of the tokens of a span: those of a thread.
struct LaneRows {
  Number* data;
  int stride;
  bool there;  // these channels are not padding

  __device__ LaneRows(const ByHead& all, const Span& span, int channel, int64_t width)
      : there(channel < width) {
    const HeadRows rows = rows_of(all, span.b, span.h);
    data = rows.data + span.first * rows.stride + channel;
    stride = static_cast<int>(rows.stride);
  }
  template <class Pack>
  __device__ Pack* at(int n) const {
    return reinterpret_cast<Pack*>(data + static_cast<int64_t>(n) * stride);
  }
};
__device__ inline int count_of(const Span& span) {
  return static_cast<int>(span.end - span.first);
}

// What else is known of the 16 tokens of a warp, one for each lane and the lane 16 further on.
template <bool kTurned>
struct TokenNumbers {
  Turn<kTurned> turn;
  float inverse, column;

  // The tokens from `first` on; inverses and columns that are null are 1.
  __device__ void load(const Features& x, const Span& span, int first, const float* inverses,
                       const float* columns) {
    const int n = first + static_cast<int>(threadIdx.x) % 16;
    const bool there = n < count_of(span);
    const int64_t token = span.group * x.tokens + span.first + n;
    turn.load(x, span.b, span.first + n, span.end);
    inverse = there && inverses ? inverses[token] : 1;
    column = !there ? 0 : columns ? columns[token] : 1;
  }
  __device__ static float of(float number, int token) {
    return __shfl_sync(0xffffffffu, number, token);
  }
  __device__ float2 turn_at(int token) const {
    const float2 own = turn.get();
    return {of(own.x, token), kTurned ? of(own.y, token) : 0};
  }
};

// Of two words that hold two numbers each, the first numbers, or the second ones.
__device__ inline uint32_t first_of(uint32_t a, uint32_t b) {
  return (a & 0xffffu) | b << 16;
}
__device__ inline uint32_t second_of(uint32_t a, uint32_t b) {
  return a >> 16 | (b & 0xffff0000u);
}

// Four tokens of a thread on their way: 4 channels of x and of the values, and their numbers.
template <bool kTurned>
struct FourTokens {
  uint2 x[4], value[4];
  TokenNumbers<kTurned> numbers;

  __device__ static int row(int i) { return 2 * Lane().t + i % 2 + i / 2 * 8; }
  // The tokens first + 2 t, + 2 t + 1, + 2 t + 8 and + 2 t + 9 of the span.
  __device__ void load(const FeatureSums& task, const Span& span, const LaneRows& from,
                       const LaneRows& values, int first) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = first + row(i);
      const bool there = n < count_of(span);
      x[i] = there && from.there ? *from.at<const uint2>(n) : uint2{0, 0};
      value[i] = there && values.there ? *values.at<const uint2>(n) : uint2{0, 0};
    }
    numbers.load(task.x, span, first, task.scale, task.column);
  }

  // phi, transposed: rows are features.
  __device__ void features(FeatureMap map, bool there, mma::A (&a)[kTurned ? 4 : 2]) const {
    float y[16];  // four channels of each token
    float2 turn[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      turn[i] = numbers.turn_at(row(i));
      const bool has = turn[i].x != 0 || turn[i].y != 0;
      const float2 front = mma::unpack<Number>(has ? x[i].x : 0),
                   back = mma::unpack<Number>(has ? x[i].y : 0);
      y[4 * i] = front.x, y[4 * i + 1] = front.y, y[4 * i + 2] = back.x, y[4 * i + 3] = back.y;
    }
    apply_map(map, y);
#pragma unroll
    for (int half = 0; half < (kTurned ? 2 : 1); ++half)
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          const int i = 2 * pair;
          const float2 &upper = turn[i], &lower = turn[i + 1];
          const uint32_t both =
              mma::pack<Number>(y[4 * i + e] * (half == 0 ? upper.x : upper.y),
                                y[4 * i + 4 + e] * (half == 0 ? lower.x : lower.y));
          a[2 * half + e / 2].part[e % 2 + 2 * pair] = there ? both : 0;
        }
  }
  __device__ void values(bool scaled, mma::B (&b)[kTiles]) const {
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      uint2 rows[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        rows[i] = value[2 * pair + i];
        if (!scaled) continue;
        const float by = fabsf(numbers.of(numbers.inverse, row(2 * pair + i)));
        const float2 front = mma::unpack<Number>(rows[i].x), back = mma::unpack<Number>(rows[i].y);
        rows[i] = {mma::pack<Number>(front.x * by, front.y * by),
                   mma::pack<Number>(back.x * by, back.y * by)};
      }
      b[0].part[pair] = first_of(rows[0].x, rows[1].x);
      b[1].part[pair] = second_of(rows[0].x, rows[1].x);
      b[2].part[pair] = first_of(rows[0].y, rows[1].y);
      b[3].part[pair] = second_of(rows[0].y, rows[1].y);
    }
  }
  // Two columns whose sum has twice the digits of one.
  __device__ mma::B columns() const {
    const int g = Lane().g;
    mma::B b;
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const float2 two = {numbers.of(numbers.column, row(2 * pair)),
                          numbers.of(numbers.column, row(2 * pair + 1))};
      const uint32_t high = mma::pack<Number>(two.x, two.y);
      const float2 rounded = mma::unpack<Number>(high);
      const uint32_t low = mma::pack<Number>(two.x - rounded.x, two.y - rounded.y);
      b.part[pair] = g == 0 ? high : g == 1 ? low : 0;
    }
    return b;
  }
};

// Two rows of a thread, g and g + 8, 8 channels of each.
struct TwoRows {
  uint4 pack[2];

  __device__ static int row(int low) { return Lane().g + 8 * low; }
  __device__ void load(const LaneRows& from, int first, int count) {
#pragma unroll
    for (int low = 0; low < 2; ++low) {
      const int n = first + row(low);
      pack[low] = n < count && from.there ? *from.at<const uint4>(n) : uint4{0, 0, 0, 0};
    }
  }
  __device__ void store(const LaneRows& to, int first, int count) const {
#pragma unroll
    for (int low = 0; low < 2; ++low)
      if (const int n = first + row(low); n < count && to.there) *to.at<uint4>(n) = pack[low];
  }
  __device__ void numbers(float (&x)[16]) const {
#pragma unroll
    for (int low = 0; low < 2; ++low) {
      float row[8];
      spread(pack[low], row);
#pragma unroll
      for (int i = 0; i < 8; ++i) x[8 * low + i] = row[i];
    }
  }
  // As the left factor of products.
  __device__ void put(mma::A (&a)[2]) const {
    a[0] = {pack[0].x, pack[1].x, pack[0].y, pack[1].y};
    a[1] = {pack[0].z, pack[1].z, pack[0].w, pack[1].w};
  }
};
__device__ inline TwoRows rows_with(const mma::C (&c)[kTiles], float upper, float lower) {
  TwoRows rows;
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    const float by = low ? lower : upper;
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = c[i / 2].part[2 * low + i % 2] * by;
    rows.pack[low] = packed(x);
  }
  return rows;
}

// Two tokens on their way to features.
template <bool kTurned>
struct FeatureRows {
  TwoRows x;
  TokenNumbers<kTurned> numbers;
  float2 turn[2];

  __device__ void load(const Features& from, const LaneRows& rows, const Span& span, int first,
                       const float* inverses, const float* columns) {
    x.load(rows, first, count_of(span));
    numbers.load(from, span, first, inverses, columns);
  }
  // To be called when this has arrived. A token without features counts as 0, so that nothing it
  // holds is read.
  __device__ void settle() {
#pragma unroll
    for (int low = 0; low < 2; ++low) {
      turn[low] = numbers.turn_at(TwoRows::row(low));
      if (turn[low].x == 0 && turn[low].y == 0) x.pack[low] = {0, 0, 0, 0};
    }
  }
  __device__ void features(FeatureMap map, bool there, mma::A (&a)[kTurned ? 4 : 2]) const {
    float y[16];
    x.numbers(y);
    apply_map(map, y);
#pragma unroll
    for (int half = 0; half < (kTurned ? 2 : 1); ++half) {
      TwoRows phi;
#pragma unroll
      for (int low = 0; low < 2; ++low) {
        const float by = half == 0 ? turn[low].x : turn[low].y;
        float row[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) row[i] = y[8 * low + i] * by;
        phi.pack[low] = there ? packed(row) : uint4{0, 0, 0, 0};
      }
      mma::A both[2];
      phi.put(both);
      a[2 * half] = both[0], a[2 * half + 1] = both[1];
    }
  }
};

__device__ inline int number_of(int channel) {
  return channel & ~31 | channel % 8 / 2 * 8 | channel % 32 / 8 * 2 | channel % 2;
}

// Sums [R, 32] in shared memory, rows and columns in the order of the tiles, and z beside them.
template <int R>
struct NarrowSums {
  static constexpr int kNumbers = R * kStride;
  static constexpr size_t kBytes = sizeof(Number) * 2 * kNumbers + sizeof(float) * R;
  Number *high, *low;
  float* z;

  __device__ NarrowSums(unsigned char* place, const float* from)
      : high(reinterpret_cast<Number*>(place)),
        low(high + kNumbers),
        z(reinterpret_cast<float*>(low + kNumbers)) {
    for (int i = static_cast<int>(threadIdx.x); i < R * kWidth / 2; i += kReadThreads) {
      const int r = i / (kWidth / 2), d = i % (kWidth / 2) * 2;
      const int to = number_of(r) * kStride + number_of(d);
      const float2 sum = *reinterpret_cast<const float2*>(from + r * kRowWords + d);
      const uint32_t top = mma::pack<Number>(sum.x, sum.y);
      const float2 rounded = mma::unpack<Number>(top);
      *reinterpret_cast<uint32_t*>(high + to) = top;
      *reinterpret_cast<uint32_t*>(low + to) =
          mma::pack<Number>(sum.x - rounded.x, sum.y - rounded.y);
    }
    for (int r = static_cast<int>(threadIdx.x); r < R; r += kReadThreads)
      z[number_of(r)] = from[r * kRowWords + kWidth];
    __syncthreads();
  }
  // c [16, 32] += a [16, R] S.
  __device__ void times(mma::C (&c)[kTiles], const mma::A (&a)[R / 16]) const {
#pragma unroll
    for (int k = 0; k < R / 16; ++k)
#pragma unroll
      for (int n = 0; n < kTiles / 2; ++n)
#pragma unroll
        for (const Number* part : {high, low}) {
          const mma::TwoB b = mma::b_of_rows(part + k * 16 * kStride + n * 16, kStride);
          mma::multiply<Number>(c[2 * n], a[k], b.tile[0]);
          mma::multiply<Number>(c[2 * n + 1], a[k], b.tile[1]);
        }
  }
  // c [16, 32] += a [16, 32] times 32 rows of S from `first` on, transposed.
  __device__ void times_transposed(mma::C (&c)[kTiles], const mma::A (&a)[2], int first) const {
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int n = 0; n < kTiles / 2; ++n)
#pragma unroll
        for (const Number* part : {high, low}) {
          const mma::TwoB b =
              mma::b_of_columns(part + (first + n * 16) * kStride + k * 16, kStride);
          mma::multiply<Number>(c[2 * n], a[k], b.tile[0]);
          mma::multiply<Number>(c[2 * n + 1], a[k], b.tile[1]);
        }
  }
};

// Each row by the size of its number.
__device__ inline void scale(TwoRows& y, const float (&by)[2]) {
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    float x[8];
    spread(y.pack[low], x);
#pragma unroll
    for (float& number : x) number *= fabsf(by[low]);
    y.pack[low] = packed(x);
  }
}
// The columns of two queries, -(values . y) / d, or 0.
__device__ inline void find_columns(float (&column)[2], const mma::C (&values)[kTiles],
                                    const TwoRows& y, const float (&inverse)[2]) {
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    float x[8], product = 0;
    spread(y.pack[low], x);
#pragma unroll
    for (int i = 0; i < 8; ++i) product += x[i] * values[i / 2].part[2 * low + i % 2];
    product += __shfl_xor_sync(0xffffffffu, product, 1);
    product += __shfl_xor_sync(0xffffffffu, product, 2);
    column[low] = inverse[low] > 0 ? -product * inverse[low] : 0;
  }
}

}  // namespace longbow::kernels::narrow
#endif
