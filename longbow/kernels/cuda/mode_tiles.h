#pragma once
// What a warp does for one channel and one segment: 16 chunks of 64 tokens are the rows of a left
// factor [16, 64]. Eight modes at a time, their states are tiles [16 chunks, 8 modes] of real and
// of imaginary parts, which a thread holds at the same places. The right factors are powers of
// e^r, which each thread forms for itself from a few by multiplication.
//
// A walk goes from earlier to later tokens or, `kAhead`, from later to earlier ones. Between chunks
// beside each other token i reads token j with the power (span - j) + i or, ahead, j + (span - i):
// what is in brackets stands with the token that is written or read from behind.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/channel_tiles.h"
#include "longbow/kernels/mode_convolution.h"

namespace longbow::kernels::modes {

using namespace channels;

constexpr int kWarps = 4, kThreads = 32 * kWarps;

struct alignas(8) Complex {
  float re, im;
};
__device__ __forceinline__ Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__device__ __forceinline__ Complex operator+(Complex a, Complex b) {
  return {a.re + b.re, a.im + b.im};
}

// Of the table: powers over one token, a chunk and a segment.
struct alignas(16) Mode {
  Complex token, chunk, segment, weight;
};

// z^e for e = 0 .. 15.
__device__ __forceinline__ Complex power(Complex z, int e) {
  Complex result = {1, 0};
#pragma unroll
  for (int bit = 1; bit < 16; bit *= 2) {
    if (e & bit) result = result * z;
    z = z * z;
  }
  return result;
}

struct Powers {
  Complex eight, sixteen;
  __device__ __forceinline__ explicit Powers(Complex z) {
    const Complex two = z * z, four = two * two;
    eight = four * four;
    sixteen = eight * eight;
  }
};

// Tiles [16 chunks, 8 modes]. Thread (g, t) holds modes 2t + e of the chunks g + 8 h.
struct States {
  mma::C re = {}, im = {};
  __device__ __forceinline__ Complex at(int h, int e) const {
    return {re.part[2 * h + e], im.part[2 * h + e]};
  }
  __device__ __forceinline__ void set(int h, int e, Complex x) {
    re.part[2 * h + e] = x.re;
    im.part[2 * h + e] = x.im;
  }
};

// What the tokens of a chunk write into the modes, and the same with each power of e^r times its
// exponent. `token` is e^r of the mode g.
template <bool kAhead, bool kMoments>
__device__ __forceinline__ void gather(States& sums, States& moments,
                                       const mma::A (&tokens)[kSteps], Complex token, int span) {
  const int t = lane_of() % 4, lowest = kAhead ? 2 * t : span - 57 - 2 * t;
  const Powers powers(token);
  Complex z[4];
  z[0] = power(token, lowest);
  z[1] = z[0] * token;
  z[2] = z[0] * powers.eight;
  z[3] = z[1] * powers.eight;
  auto exponent = static_cast<float>(lowest);
  const auto product = [&](States& to, const mma::A& a, const Complex(&x)[4]) {
    constexpr int k0 = kAhead ? 0 : 3, k1 = kAhead ? 1 : 2, k2 = 3 - k1, k3 = 3 - k0;
    mma::multiply<Number>(
        to.re, a, {{mma::pack<Number>(x[k0].re, x[k1].re), mma::pack<Number>(x[k2].re, x[k3].re)}});
    mma::multiply<Number>(
        to.im, a, {{mma::pack<Number>(x[k0].im, x[k1].im), mma::pack<Number>(x[k2].im, x[k3].im)}});
  };
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const mma::A& a = tokens[kAhead ? i : kSteps - 1 - i];
    product(sums, a, z);
    if constexpr (kMoments) {
      constexpr float kBehind[4] = {0, 1, 8, 9};
      Complex scaled[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float factor = exponent + kBehind[k];
        scaled[k] = {factor * z[k].re, factor * z[k].im};
      }
      product(moments, a, scaled);
      exponent += 16;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) z[k] = z[k] * powers.sixteen;
  }
}

__device__ __forceinline__ Complex from_lane(Complex x, int lane) {
  return {__shfl_sync(0xffffffffu, x.re, lane), __shfl_sync(0xffffffffu, x.im, lane)};
}

// From what each chunk writes to what it finds: the chunks before it, and `start` before them all.
// Both are of the modes 2t and 2t + 1.
template <bool kAhead>
__device__ __forceinline__ void walk(States& states, const Complex (&chunk)[2],
                                     const Complex (&start)[2]) {
  constexpr int kEarly = kAhead ? 1 : 0, kBack = kAhead ? 4 : -4;
  const int lane = lane_of(), g = lane / 4, t = lane % 4, place = kAhead ? 7 - g : g;
  const int last = (kAhead ? 0 : 28) + t;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    Complex early = states.at(kEarly, e), late = states.at(1 - kEarly, e);
    Complex factor = chunk[e], own = {1, 0};
#pragma unroll
    for (int d = 1; d < 8; d *= 2) {
      const Complex a = from_lane(early, lane + d * kBack), b = from_lane(late, lane + d * kBack);
      if (place >= d) {
        early = early + factor * a;
        late = late + factor * b;
      }
      if (place & d) own = own * factor;
      factor = factor * factor;
    }
    const Complex whole = from_lane(early, last), a = from_lane(early, lane + kBack),
                  b = from_lane(late, lane + kBack), none = {0, 0};
    states.set(kEarly, e, (place > 0 ? a : none) + own * start[e]);
    states.set(1 - kEarly, e, (place > 0 ? b : none) + own * (whole + factor * start[e]));
  }
}

// What all chunks together leave behind, in all threads that hold a mode.
template <bool kAhead>
__device__ __forceinline__ void finish(const States& states, const Complex (&chunk)[2],
                                       Complex (&end)[2]) {
  constexpr int kEarly = kAhead ? 1 : 0;
  const int g = lane_of() / 4;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    Complex sum = power(chunk[e], kAhead ? g : 7 - g) *
                  (states.at(1 - kEarly, e) + power(chunk[e], 8) * states.at(kEarly, e));
#pragma unroll
    for (int other = 4; other < 32; other *= 2)
      sum = sum + Complex{__shfl_xor_sync(0xffffffffu, sum.re, other),
                          __shfl_xor_sync(0xffffffffu, sum.im, other)};
    end[e] = sum;
  }
}

// y += Re sum_n w_n e^{..} s_n over eight modes, of which this thread names 2t and 2t + 1.
template <bool kAhead>
__device__ __forceinline__ void read_out(mma::C (&y)[kTiles], const States& states,
                                         const Mode (&mode)[2], int span) {
  const int g = lane_of() / 4, lowest = kAhead ? span - 56 - g : g;
  States weighed;
  Complex z[2], eight[2];
#pragma unroll
  for (int e = 0; e < 2; ++e) {
#pragma unroll
    for (int h = 0; h < 2; ++h) weighed.set(h, e, states.at(h, e) * mode[e].weight);
    z[e] = power(mode[e].token, lowest);
    eight[e] = Powers(mode[e].token).eight;
  }
  const auto a = mma::a_of<Number>(weighed.re, weighed.im);
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    mma::multiply<Number>(
        y[kAhead ? kTiles - 1 - i : i], a,
        {{mma::pack<Number>(z[0].re, z[1].re), mma::pack<Number>(-z[0].im, -z[1].im)}});
#pragma unroll
    for (int e = 0; e < 2; ++e) z[e] = z[e] * eight[e];
  }
}

// y_i += sum_j tap(i - j) u_j within each chunk, or tap(j - i). Blocks of a Toeplitz matrix depend
// on their distance alone.
template <bool kTurned>
__device__ __forceinline__ void convolve(mma::C (&y)[kTiles], const mma::A (&tokens)[kSteps],
                                         const float* taps) {
  const int g = lane_of() / 4, t = lane_of() % 4;
  uint32_t block[2 * kTiles - 1];
#pragma unroll
  for (int i = 0; i < 2 * kTiles - 1; ++i) {
    const int lag = 8 * (i - kTiles + 1) + g - 2 * t;
    const float* at = taps + kChannelChunk + (kTurned ? -lag : lag);
    block[i] = mma::pack<Number>(at[0], at[kTurned ? 1 : -1]);
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
      mma::multiply<Number>(y[n], tokens[step],
                            {{block[n - 2 * step + 7], block[n - 2 * step + 6]}});
}

// Modes of a channel and the states before a segment.
__device__ __forceinline__ const Mode* modes_of(const ModeConvolution& task, int64_t direction,
                                                int64_t channel) {
  return reinterpret_cast<const Mode*>(task.table) +
         (direction * task.channels + channel) * task.eights * 8;
}
__device__ __forceinline__ Complex* starts_of(const ModeConvolution& task, float* starts,
                                              const Site& site, int64_t direction,
                                              int64_t channel) {
  const int64_t at = (site.batch * task.segments + site.segment) * task.directions + direction;
  return reinterpret_cast<Complex*>(starts) + (at * task.channels + channel) * task.eights * 8;
}
__device__ __forceinline__ int span_of(const ModeConvolution& task, bool ahead) {
  return kChannelChunk - (ahead ? static_cast<int>(task.first) : 0);
}

}  // namespace longbow::kernels::modes
#endif
