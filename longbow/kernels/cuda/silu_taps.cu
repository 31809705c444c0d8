#include "longbow/kernels/silu_taps.h"

#include "longbow/kernels/cuda/feature_tiles.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 64, kWide = 8;

// A thread's channels and span.
struct Place {
  int64_t b, channel, first, end;
  bool there;

  __device__ explicit Place(const SiluTaps& task)
      : b(blockIdx.z),
        channel((blockIdx.x * int64_t{kThreads} + static_cast<int>(threadIdx.x)) * kWide),
        first(blockIdx.y * kTapSpan),
        end(first + kTapSpan < task.tokens ? first + kTapSpan : task.tokens),
        there(channel < task.channels) {}
  __device__ Number* at(const TokenRows& rows, int64_t token) const {
    return static_cast<Number*>(rows.data) + b * rows.batch + token * rows.token + channel;
  }
  // Zeros outside of the sequence.
  __device__ void load(float (&x)[kWide], const TokenRows& rows, int64_t token,
                       int64_t tokens) const {
    const bool inside = token >= 0 && token < tokens;
    spread(inside ? *reinterpret_cast<const uint4*>(at(rows, token)) : uint4{0, 0, 0, 0}, x);
  }
};

template <int K>
struct Taps {
  float tap[K][kWide], bias[kWide];

  __device__ Taps(const SiluTaps& task, int64_t channel) {
#pragma unroll
    for (int e = 0; e < kWide; ++e) {
#pragma unroll
      for (int k = 0; k < K; ++k) tap[k][e] = task.taps[k * task.channels + channel + e];
      bias[e] = task.bias[channel + e];
    }
  }
  // Of the last K tokens, the newest of them in place `newest`.
  __device__ float over(const float (&window)[K][kWide], int newest, int e) const {
    float sum = bias[e];
#pragma unroll
    for (int k = 0; k < K; ++k) sum += tap[k][e] * window[(newest + 1 + k) % K][e];
    return sum;
  }
};

// The window is a ring: K tokens are unrolled, so that its places are constants.
template <int K>
__global__ void __launch_bounds__(kThreads) forward(SiluTaps task) {
  const Place place(task);
  if (!place.there) return;
  const Taps<K> taps(task, place.channel);
  float window[K][kWide];
#pragma unroll
  for (int k = 0; k < K - 1; ++k)
    place.load(window[k + 1], task.z, place.first - (K - 1) + k, task.tokens);
  for (int64_t first = place.first; first < place.end; first += K)
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t token = first + k;
      if (token >= place.end) break;
      place.load(window[k], task.z, token, task.tokens);
      float y[kWide];
#pragma unroll
      for (int e = 0; e < kWide; ++e) {
        const float sum = taps.over(window, k, e);
        y[e] = sum / (1 + __expf(-sum));
      }
      *reinterpret_cast<uint4*>(place.at(task.y, token)) = packed(y);
    }
}

template <int K>
__global__ void __launch_bounds__(kThreads) backward(SiluTapsBackward given) {
  const auto& task = given.past;
  const Place place(task);
  if (!place.there) return;
  const Taps<K> taps(task, place.channel);
  float window[K][kWide], slopes[K][kWide] = {}, dtaps[K][kWide] = {}, dbias[kWide] = {};
#pragma unroll
  for (int k = 0; k < K - 1; ++k)
    place.load(window[k + 1], task.z, place.first - (K - 1) + k, task.tokens);
  // K - 1 tokens behind the span, whose gradients reach into it.
  const int64_t last = place.end + K - 1;
  for (int64_t first = place.first; first < last; first += K)
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t token = first + k;
      if (token >= last) break;
      float dy[kWide], dz[kWide] = {};
      place.load(window[k], task.z, token, task.tokens);
      place.load(dy, given.dy, token, task.tokens);
      const bool own = token < place.end;
#pragma unroll
      for (int e = 0; e < kWide; ++e) {
        const float sum = taps.over(window, k, e), s = 1 / (1 + __expf(-sum)),
                    slope = dy[e] * s * (1 + sum * (1 - s));
        slopes[k][e] = slope;
        if (own) {
          dbias[e] += slope;
#pragma unroll
          for (int j = 0; j < K; ++j) dtaps[j][e] += slope * window[(k + 1 + j) % K][e];
        }
        // The token K - 1 before has met all that read it: itself with the last tap first.
#pragma unroll
        for (int j = 0; j < K; ++j) dz[e] += taps.tap[j][e] * slopes[(k + K - j) % K][e];
      }
      if (token - (K - 1) >= place.first)
        *reinterpret_cast<uint4*>(place.at(given.dz, token - (K - 1))) = packed(dz);
    }
  float* to =
      given.sums + (place.b * gridDim.y + blockIdx.y) * (K + 1) * task.channels + place.channel;
#pragma unroll
  for (int e = 0; e < kWide; ++e) {
#pragma unroll
    for (int k = 0; k < K; ++k) to[k * task.channels + e] = dtaps[k][e];
    to[K * task.channels + e] = dbias[e];
  }
}

template <class F>
void with_taps(int64_t count, const F& body) {
  switch (count) {
    case 1:
      return body.template operator()<1>();
    case 2:
      return body.template operator()<2>();
    case 3:
      return body.template operator()<3>();
    default:
      return body.template operator()<4>();
  }
}

dim3 blocks_of(const SiluTaps& task) {
  const int64_t wide = kThreads * kWide;
  return {static_cast<unsigned>((task.channels + wide - 1) / wide),
          static_cast<unsigned>(task.spans()), static_cast<unsigned>(task.batch)};
}

}  // namespace

void silu_taps_cuda(const SiluTaps& task, void* stream) noexcept {
  with_taps(task.count,
            [&]<int K>() { launch(forward<K>, blocks_of(task), kThreads, 0, stream, task); });
}

void silu_taps_backward_cuda(const SiluTapsBackward& task, void* stream) noexcept {
  with_taps(task.past.count,
            [&]<int K>() { launch(backward<K>, blocks_of(task.past), kThreads, 0, stream, task); });
}

}  // namespace longbow::kernels
