// Few tokens of many channels stand beside each other in memory, but a product over tokens needs
// one channel: a block turns 16 channels of a segment in shared memory, and each of its warps takes
// a channel at a time through tensor cores (mode_tiles.h). The lags within a chunk are a Toeplitz
// matrix. States between chunks stay in registers; those between segments, where there are several,
// are found by two kernels before.
#include "longbow/kernels/mode_convolution.h"

#include "longbow/kernels/cuda/mode_tiles.h"
#include "longbow/kernels/cuda/sigmoid.h"

namespace longbow::kernels {
namespace {

using namespace modes;

__device__ Complex exponential(float re, float im) {
  const float size = expf(re);
  float sine, cosine;
  sincosf(im, &sine, &cosine);
  return {size * cosine, size * sine};
}

__device__ Complex pair(const float* pairs, int64_t at) {
  return {pairs[2 * at], pairs[2 * at + 1]};
}

// Re sum_n w_n e^{l r_n} of a channel.
__device__ float tap(const ModeConvolution& task, int64_t direction, int64_t channel, int lag) {
  const int64_t at = (direction * task.channels + channel) * task.modes;
  const auto l = static_cast<float>(lag);
  float sum = 0;
  for (int64_t n = at; n < at + task.modes; ++n) {
    const Complex rate = pair(task.rate, n);
    sum += (pair(task.weight, n) * exponential(l * rate.re, l * rate.im)).re;
  }
  return sum;
}

// Table and taps of a channel: a block of 128 threads, one for each lag.
__global__ void __launch_bounds__(kModeTaps) prepare(ModeConvolution task) {
  const int64_t channel = blockIdx.x, eights = task.eights * 8;
  const int lag = static_cast<int>(threadIdx.x) - kChannelChunk,
            first = static_cast<int>(task.first);
  float sum = lag == 0 ? task.skip[channel] : 0;
  if (lag >= 0) sum += tap(task, 0, channel, lag);
  if (task.directions == 2 && -lag >= first && lag > -kChannelChunk)
    sum += tap(task, 1, channel, -lag - first);
  task.taps[channel * kModeTaps + threadIdx.x] = sum;
  for (int64_t i = threadIdx.x; i < task.directions * eights; i += kModeTaps) {
    const int64_t d = i / eights, n = i % eights;
    Mode mode = {};
    if (n < task.modes) {
      const int64_t at = (d * task.channels + channel) * task.modes + n;
      const Complex rate = pair(task.rate, at);
      const auto over = [&](int tokens) { return exponential(tokens * rate.re, tokens * rate.im); };
      mode = {over(1), over(kChannelChunk), over(kChannelSegment), pair(task.weight, at)};
    }
    reinterpret_cast<Mode*>(task.table)[(d * task.channels + channel) * eights + n] = mode;
  }
}

template <bool kAhead>
__device__ void leave(const mma::A (&tokens)[kSteps], const Mode* mode, int64_t eights, int span,
                      Complex* to) {
  const int g = lane_of() / 4, t = lane_of() % 4;
  for (int64_t q = 0; q < eights; ++q, mode += 8, to += 8) {
    States states, moments;
    gather<kAhead, false>(states, moments, tokens, mode[g].token, span);
    const Complex chunk[2] = {mode[2 * t].chunk, mode[2 * t + 1].chunk};
    Complex end[2];
    finish<kAhead>(states, chunk, end);
    if (g == 0) {
      to[2 * t] = end[0];
      to[2 * t + 1] = end[1];
    }
  }
}

// What each segment alone leaves in the modes. The gradient runs from the other side.
template <bool kGradient>
__global__ void __launch_bounds__(kThreads)
    segment_ends(ModeConvolution task, ChannelRows rows, float* ends) {
  __shared__ __align__(16) Number tile[kTile];
  const Site site;
  load_tile(tile, rows, site, task.tokens, task.channels);
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x) / 32; c < kChannels; c += kWarps) {
    const int64_t channel = site.channel + c;
    if (channel >= task.channels) return;
    mma::A tokens[kSteps];
    load_channel(tokens, tile, c);
    for (int64_t d = 0; d < task.directions; ++d) {
      const Mode* mode = modes_of(task, d, channel);
      Complex* to = starts_of(task, ends, site, d, channel);
      const int span = span_of(task, d == 1);
      if ((d == 1) != kGradient)
        leave<true>(tokens, mode, task.eights, span, to);
      else
        leave<false>(tokens, mode, task.eights, span, to);
    }
  }
}

// From what each segment leaves to what it finds, a thread for each mode.
template <bool kGradient>
__global__ void carry(ModeConvolution task, float* ends) {
  const int64_t size = task.channels * task.eights * 8, each = task.directions * size;
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= task.batch * each) return;
  const int64_t segments = task.segments, b = i / each, at = i % each;
  const bool ahead = (at >= size) != kGradient;
  const Complex over = reinterpret_cast<const Mode*>(task.table)[at].segment;
  Complex* to = reinterpret_cast<Complex*>(ends) + b * segments * each + at;
  Complex found = {0, 0};
  for (int64_t k = 0; k < segments; ++k) {
    Complex& here = to[(ahead ? segments - 1 - k : k) * each];
    const Complex left = here;
    here = found;
    found = left + over * found;
  }
}

template <bool kAhead>
__device__ void add_far(mma::C (&y)[kTiles], const mma::A (&tokens)[kSteps], const Mode* mode,
                        int64_t eights, int span, const Complex* starts) {
  const int g = lane_of() / 4, t = lane_of() % 4;
  for (int64_t q = 0; q < eights; ++q, mode += 8) {
    States states, moments;
    gather<kAhead, false>(states, moments, tokens, mode[g].token, span);
    const Mode two[2] = {mode[2 * t], mode[2 * t + 1]};
    const Complex chunk[2] = {two[0].chunk, two[1].chunk};
    Complex start[2] = {};
    if (starts) {
      start[0] = starts[8 * q + 2 * t];
      start[1] = starts[8 * q + 2 * t + 1];
    }
    walk<kAhead>(states, chunk, start);
    read_out<kAhead>(y, states, two, span);
  }
}

template <ModeActivation kActivation>
__device__ __forceinline__ float activated(float x) {
  if constexpr (kActivation == ModeActivation::gelu)
    return 0.5f * x * (1 + erff(x * 0.70710678f));
  else if constexpr (kActivation == ModeActivation::silu)
    return x * sigmoid(x);
  else
    return x;
}
template <ModeActivation kActivation>
__device__ __forceinline__ unsigned activated(unsigned two) {
  const float2 x = mma::unpack<Number>(two);
  return mma::pack<Number>(activated<kActivation>(x.x), activated<kActivation>(x.y));
}

template <ModeActivation kActivation>
__global__ void __launch_bounds__(kThreads) forward(ModeConvolution task) {
  __shared__ __align__(16) Number tile[kTile];
  const Site site;
  load_tile(tile, task.u, site, task.tokens, task.channels);
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x) / 32; c < kChannels; c += kWarps) {
    const int64_t channel = site.channel + c;
    if (channel >= task.channels) break;
    mma::A tokens[kSteps];
    load_channel(tokens, tile, c);
    mma::C y[kTiles] = {};
    convolve<false>(y, tokens, task.taps + channel * kModeTaps);
    for (int64_t d = 0; d < task.directions; ++d) {
      const Mode* mode = modes_of(task, d, channel);
      const Complex* starts =
          task.starts ? starts_of(task, task.starts, site, d, channel) : nullptr;
      if (d == 0)
        add_far<false>(y, tokens, mode, task.eights, span_of(task, false), starts);
      else
        add_far<true>(y, tokens, mode, task.eights, span_of(task, true), starts);
    }
    store_channel(tile, c, y);
  }
  __syncthreads();
  read_tile(tile, site, task.tokens, task.channels, [&](int64_t n, int64_t channel, uint4 eight) {
    const auto store = [&](const ChannelRows& rows, const uint4& x) {
      *reinterpret_cast<uint4*>(const_cast<Number*>(site.row(rows, n)) + channel) = x;
    };
    if (task.y.data) store(task.y, eight);
    store(task.out, {activated<kActivation>(eight.x), activated<kActivation>(eight.y),
                     activated<kActivation>(eight.z), activated<kActivation>(eight.w)});
  });
}

dim3 blocks_of(const ModeConvolution& task) {
  return {static_cast<unsigned>((task.channels + kChannels - 1) / kChannels),
          static_cast<unsigned>(task.segments), static_cast<unsigned>(task.batch)};
}

template <bool kGradient>
void find_starts(const ModeConvolution& task, const ChannelRows& rows, float* ends, void* stream) {
  constexpr int64_t kCarriers = 256;
  launch(segment_ends<kGradient>, blocks_of(task), kThreads, 0, stream, task, rows, ends);
  const int64_t modes = task.batch * task.directions * task.channels * task.eights * 8;
  launch(carry<kGradient>, static_cast<unsigned>((modes + kCarriers - 1) / kCarriers), kCarriers, 0,
         stream, task, ends);
}

}  // namespace

void mode_convolution_cuda(const ModeConvolution& task, void* stream) noexcept {
  launch(prepare, static_cast<unsigned>(task.channels), kModeTaps, 0, stream, task);
  if (task.starts) find_starts<false>(task, task.u, task.starts, stream);
  const auto run = [&](auto* kernel) {
    launch(kernel, blocks_of(task), kThreads, 0, stream, task);
  };
  if (task.activation == ModeActivation::gelu)
    run(forward<ModeActivation::gelu>);
  else if (task.activation == ModeActivation::silu)
    run(forward<ModeActivation::silu>);
  else
    run(forward<ModeActivation::none>);
}

void mode_ends_cuda(const ModeConvolutionBackward& task, void* stream) noexcept {
  find_starts<true>(task.past, task.dy, task.ends, stream);
}

}  // namespace longbow::kernels
