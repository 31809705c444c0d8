#pragma once
// What the passes of a feed-forward sub-layer share. The weight and the bias of the norm are folded
// into the first matrix when it is brought to shared memory:
//   W1 (n w + c) + b1 = (W1 diag(w)) n + (b1 + W1 c),   n = (x - mean) / deviation,
// so tokens are kept as n alone, and the gradients of all four follow from those of W1 diag(w) and
// of the bias.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/curves.h"
#include "longbow/kernels/cuda/eight.h"
#include "longbow/kernels/cuda/sigmoid.h"
#include "longbow/kernels/feed_forward.h"
#include "longbow/kernels/philox_rounds.h"

namespace longbow::kernels::feed {

using mma::padded;

constexpr int kChunk = 32;  // units at a time

__host__ __device__ constexpr int whole_chunks(int64_t units) {
  return static_cast<int>((units + kChunk - 1) / kChunk * kChunk);
}

// Eight channels of a token belong to a thread, a token to the kC / 8 threads beside each other.
template <int kC>
constexpr int kLanes = kC / 8;
template <int kC>
__device__ inline int own_column() {
  return static_cast<int>(threadIdx.x) % kLanes<kC> * 8;
}
template <int kC>
__device__ inline float sum_of_token(float x) {
#pragma unroll
  for (int lane = kLanes<kC> / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
  return x;
}

// Both matrices in shared memory: `units` of the layer's units from `first` on, zeros after the
// last one.
template <class T, int kC>
struct Matrices {
  T* up;        // [units, padded(kC)], W1 diag(w)
  T* down;      // [kC, padded(units)]
  float* bias;  // [units], b1 + W1 c
  int units;

  __host__ __device__ static constexpr size_t bytes(int units) {
    return sizeof(T) * (units * padded(kC) + kC * padded(units)) + sizeof(float) * units;
  }
  __device__ Matrices(unsigned char* memory, int of_units)
      : up(reinterpret_cast<T*>(memory)),
        down(up + of_units * padded(kC)),
        bias(reinterpret_cast<float*>(down + kC * padded(of_units))),
        units(of_units) {}

  __device__ void load(const FeedForward& task, int first) const {
    const int column = own_column<kC>(), there = static_cast<int>(task.units) - first;
    const Eight weight = read(static_cast<const T*>(task.norm_weight) + column),
                offset = read(static_cast<const T*>(task.norm_bias) + column);
    for (int i = static_cast<int>(threadIdx.x); i < units * kLanes<kC>; i += blockDim.x) {
      const int unit = i / kLanes<kC>;
      Eight row = {};
      if (unit < there)
        row = read(static_cast<const T*>(task.up) + int64_t{first + unit} * kC + column);
      const float sum = sum_of_token<kC>(dot(row, offset));
#pragma unroll
      for (int j = 0; j < 8; ++j) row.value[j] *= weight.value[j];
      write(up + unit * padded(kC) + column, row);
      if (column > 0) continue;
      bias[unit] = unit < there
                       ? sum + static_cast<float>(static_cast<const T*>(task.up_bias)[first + unit])
                       : 0;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kC * units / 8; i += blockDim.x) {
      const int row = i / (units / 8), unit = i % (units / 8) * 8;
      Eight part = {};
      if (unit < there)
        part = read(static_cast<const T*>(task.down) + row * task.units + first + unit);
      write(down + row * padded(units) + unit, part);
    }
  }
};

// kRows tokens of a warp, normalised, into its rows of shared memory. read_part(row) are the eight
// numbers of a thread, zeros after the last token.
template <class T, int kC, int kRows, class F>
__device__ __forceinline__ void stage_tokens(float epsilon, const F& read_part, T* rows,
                                             float* deviations = nullptr) {
  constexpr int kBeside = 32 / kLanes<kC>, kTurns = kRows / kBeside;
  const int own = static_cast<int>(threadIdx.x) % 32 / kLanes<kC>, column = own_column<kC>();
  uint4 packed[kTurns];
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) packed[turn] = read_part(turn * kBeside + own);
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    Eight x = read(reinterpret_cast<const T*>(packed + turn));
    float sum = 0, squares = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += x.value[j];
    const float mean = sum_of_token<kC>(sum) / kC;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      x.value[j] -= mean;
      squares += x.value[j] * x.value[j];
    }
    const float inverse = rsqrtf(sum_of_token<kC>(squares) / kC + epsilon);
#pragma unroll
    for (int j = 0; j < 8; ++j) x.value[j] *= inverse;
    const int row = turn * kBeside + own;
    write(rows + row * padded(kC) + column, x);
    if (deviations && column == 0) deviations[row] = inverse;
  }
}

// Drops of the eight numbers from `element` on what the forward pass drops.
__device__ __forceinline__ void drop(Eight& x, const FeedForward& task, int64_t element) {
  if (!task.key) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto block = philox_site(task.key[0], task.key[1], task.site, element / 4 + half);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float& one = x.value[4 * half + j];
      one = philox_unit(block.word[j]) >= task.rate ? one * task.kept : 0;
    }
  }
}

// Eight of the 16 tokens whose sums [16, kC] a warp holds, as float32 rows in shared memory of this
// warp.
template <int kC>
constexpr int kWideRow = kC + 4;
template <int kC>
__device__ __forceinline__ void spread(const mma::C (&sums)[kC / 8], int half, float* rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < kC / 8; ++n)
    *reinterpret_cast<float2*>(rows + g * kWideRow<kC> + n * 8 + 2 * t) = {
        sums[n].part[2 * half], sums[n].part[2 * half + 1]};
}
__device__ inline Eight read_wide(const float* from) {
  const auto a = reinterpret_cast<const float4*>(from)[0],
             b = reinterpret_cast<const float4*>(from)[1];
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

using curves::gelu, curves::Point;

__device__ inline Point gelu_tanh(float u) {
  constexpr float kFactor = 2 * 0.7978845608f, kCube = 0.044715f;
  const float share = sigmoid(kFactor * u * (1 + kCube * u * u));
  return {u * share, share + u * share * (1 - share) * kFactor * (1 + 3 * kCube * u * u)};
}
__device__ inline Point silu(float u) {
  const float share = sigmoid(u);
  return {u * share, share * (1 + u * (1 - share))};
}
template <bool kGelu>
__device__ __forceinline__ Point at(Curve curve, float u) {
  if (kGelu) return gelu(u);
  if (curve == Curve::gelu_tanh) return gelu_tanh(u);
  if (curve == Curve::silu) return silu(u);
  return {u > 0 ? u : 0, u > 0 ? 1.0f : 0.0f};
}

// W1 n + b1 of 16 tokens and kChunk units from `unit` on.
template <class T, int kC>
__device__ __forceinline__ void rise(mma::C (&u)[kChunk / 8], const Matrices<T, kC>& matrices,
                                     const mma::A& tokens, int unit, int step) {
#pragma unroll
  for (int n = 0; n < kChunk / 8; n += 2) {
    const auto b =
        mma::b_of_columns(matrices.up + (unit + n * 8) * padded(kC) + step * 16, padded(kC));
    mma::multiply<T>(u[n], tokens, b.tile[0]);
    mma::multiply<T>(u[n + 1], tokens, b.tile[1]);
  }
}
// W2^T dz of them.
template <class T, int kC>
__device__ __forceinline__ void fall(mma::C (&da)[kChunk / 8], const Matrices<T, kC>& matrices,
                                     const mma::A& gradients, int unit, int step) {
  const int stride = padded(matrices.units);
#pragma unroll
  for (int n = 0; n < kChunk / 8; n += 2) {
    const auto b = mma::b_of_rows(matrices.down + step * 16 * stride + unit + n * 8, stride);
    mma::multiply<T>(da[n], gradients, b.tile[0]);
    mma::multiply<T>(da[n + 1], gradients, b.tile[1]);
  }
}
// Calls body(u's place, f(u)) for all of a thread, with the bias in u.
template <bool kGelu, class T, int kC, class F>
__device__ __forceinline__ void curved(mma::C (&u)[kChunk / 8], const Matrices<T, kC>& matrices,
                                       Curve curve, int unit, const F& body) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int n = 0; n < kChunk / 8; ++n) {
    const auto bias = *reinterpret_cast<const float2*>(matrices.bias + unit + n * 8 + 2 * t);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      body(n, i, at<kGelu>(curve, u[n].part[i] + (i % 2 == 0 ? bias.x : bias.y)));
  }
}

}  // namespace longbow::kernels::feed
#endif
