// The tokens' gradient is the same convolution from the other side. A pair of tokens in two chunks
// counts for w_n by e^{r_n l} and for r_n by l e^{r_n l} w_n. The lag l is what the two chunks
// write into the modes, each up to its border, and 64 for every chunk between them, so that sums
// over products of states give both. Pairs within a chunk are summed for each lag.
#include "longbow/kernels/cuda/mode_tiles.h"

namespace longbow::kernels {
namespace {

using namespace modes;

__device__ float over_tokens(float x) {  // of a warp's column t
#pragma unroll
  for (int other = 4; other < 32; other *= 2) x += __shfl_xor_sync(0xffffffffu, x, other);
  return x;
}

// sums[64 + l] = sum of dy_{t + l} u_t over pairs within a chunk. Blocks [16, 8] of the products of
// all pairs are added up where their distance is the same, and then along their diagonals.
__device__ __forceinline__ void correlate(float* sums, const Number* dy, const Number* u) {
  constexpr int kBlocks = 2 * kSteps + kTiles - 2;
  mma::C block[kBlocks] = {};
#pragma unroll
  for (int m = 0; m < kSteps; ++m) {
    const auto a = mma::a_of_columns(dy + 16 * m, kStride);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      const auto b = mma::b_of_rows(u + 8 * n, kStride);
      mma::multiply<Number>(block[2 * m - n + 7], a, b.tile[0]);
      mma::multiply<Number>(block[2 * m - n + 6], a, b.tile[1]);
    }
  }
  const int g = lane_of() / 4, t = lane_of() % 4;
  float lag[16] = {};  // 8 i + g
#pragma unroll
  for (int i = 0; i <= kBlocks; ++i)  // lag 8 (i + 1) + g - 2t - e of the thread
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float sum =
          (i < kBlocks ? block[i].part[e] : 0) + (i > 0 ? block[i - 1].part[2 + e] : 0);
      const int from = g + 2 * t + e;
      const float x = __shfl_sync(0xffffffffu, sum, from % 8 * 4 + t);
      lag[i + 1] += from < 8 ? x : 0;
      lag[i] += from < 8 ? 0 : x;
    }
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    float sum = lag[i];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (i % 4 == t) sums[8 * i + g] = sum;
  }
}

// A walk of u and the opposite one of dy over eight modes at a time.
template <bool kAhead>
__device__ void walk_both(mma::C (&du)[kTiles], const mma::A (&u)[kSteps],
                          const mma::A (&dy)[kSteps], const Mode* mode, int64_t eights, int span,
                          const Complex* starts, const Complex* ends, float4* sums) {
  const int g = lane_of() / 4, t = lane_of() % 4;
  for (int64_t q = 0; q < eights; ++q, mode += 8) {
    States left, left_moments, right, right_moments;
    gather<kAhead, true>(left, left_moments, u, mode[g].token, span);
    gather<!kAhead, true>(right, right_moments, dy, mode[g].token, span);
    const Mode two[2] = {mode[2 * t], mode[2 * t + 1]};
    const Complex chunk[2] = {two[0].chunk, two[1].chunk};
    Complex start[2] = {}, end[2] = {};
    if (starts)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        start[e] = starts[8 * q + 2 * t + e];
        end[e] = ends[8 * q + 2 * t + e];
      }
    walk<kAhead>(left, chunk, start);
    States found = right;
    walk<!kAhead>(found, chunk, end);
    read_out<!kAhead>(du, found, two, span);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      Complex dweight = {}, drate = {};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const Complex s = left.at(h, e), between = chunk[e] * s * found.at(h, e);
        dweight = dweight + s * right.at(h, e);
        drate = drate + s * right_moments.at(h, e) + left_moments.at(h, e) * found.at(h, e) +
                Complex{kChannelChunk * between.re, kChannelChunk * between.im};
      }
      const float4 all = {over_tokens(dweight.re), over_tokens(dweight.im), over_tokens(drate.re),
                          over_tokens(drate.im)};
      if (g == 0) sums[8 * q + 2 * t + e] = all;
    }
  }
}

__global__ void __launch_bounds__(kThreads, 3) backward(ModeConvolutionBackward given) {
  const ModeConvolution& task = given.past;
  auto* u_tile = reinterpret_cast<Number*>(dynamic_memory());
  Number* dy_tile = u_tile + kTile;
  const Site site;
  load_tile(u_tile, task.u, site, task.tokens, task.channels);
  load_tile(dy_tile, given.dy, site, task.tokens, task.channels);
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x) / 32; c < kChannels; c += kWarps) {
    const int64_t channel = site.channel + c;
    if (channel >= task.channels) break;
    const int64_t item = site.batch * task.segments + site.segment;
    correlate(given.lags + (item * task.channels + channel) * kModeTaps, dy_tile + place_of(c, 0),
              u_tile + place_of(c, 0));
    mma::A u[kSteps], dy[kSteps];
    load_channel(u, u_tile, c);
    load_channel(dy, dy_tile, c);
    mma::C du[kTiles] = {};
    convolve<true>(du, dy, task.taps + channel * kModeTaps);
    for (int64_t d = 0; d < task.directions; ++d) {
      const Mode* mode = modes_of(task, d, channel);
      const bool carried = task.starts != nullptr;
      const Complex *starts = carried ? starts_of(task, task.starts, site, d, channel) : nullptr,
                    *ends = carried ? starts_of(task, given.ends, site, d, channel) : nullptr;
      float4* sums = reinterpret_cast<float4*>(given.sums) +
                     ((item * task.directions + d) * task.channels + channel) * task.eights * 8;
      const int span = span_of(task, d == 1);
      if (d == 0)
        walk_both<false>(du, u, dy, mode, task.eights, span, starts, ends, sums);
      else
        walk_both<true>(du, u, dy, mode, task.eights, span, starts, ends, sums);
    }
    store_channel(dy_tile, c, du);
  }
  __syncthreads();
  read_tile(dy_tile, site, task.tokens, task.channels,
            [&](int64_t n, int64_t channel, const uint4& eight) {
              *reinterpret_cast<uint4*>(const_cast<Number*>(site.row(given.du, n)) + channel) =
                  eight;
            });
}

// Adds what all segments found, and the taps' part: a block of 128 threads for each channel.
__global__ void __launch_bounds__(kModeTaps) add_up(ModeConvolutionBackward given) {
  __shared__ float lags[kModeTaps];
  const ModeConvolution& task = given.past;
  const int64_t channel = blockIdx.x, items = task.batch * task.segments, eights = task.eights * 8;
  float sum = 0;
  for (int64_t k = 0; k < items; ++k)
    sum += given.lags[(k * task.channels + channel) * kModeTaps + threadIdx.x];
  lags[threadIdx.x] = sum;
  if (threadIdx.x == kChannelChunk) given.dskip[channel] = sum;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < task.directions * task.modes; i += kModeTaps) {
    const int64_t d = i / task.modes, n = i % task.modes;
    const int64_t at = (d * task.channels + channel) * eights + n;
    float4 all = {0, 0, 0, 0};
    for (int64_t k = 0; k < items; ++k) {
      const float4 one = reinterpret_cast<const float4*>(
          given.sums)[k * task.directions * task.channels * eights + at];
      all = {all.x + one.x, all.y + one.y, all.z + one.z, all.w + one.w};
    }
    const Mode mode = reinterpret_cast<const Mode*>(task.table)[at];
    const int first = d == 1 ? static_cast<int>(task.first) : 0;
    Complex power = {1, 0};
    for (int l = 0; l + first < kChannelChunk; ++l) {
      const float lag = lags[kChannelChunk + (d == 1 ? -(l + first) : l)];
      all = {all.x + lag * power.re, all.y + lag * power.im, all.z + l * lag * power.re,
             all.w + l * lag * power.im};
      power = power * mode.token;
    }
    const Complex drate = Complex{all.z, all.w} * mode.weight;
    const int64_t to = (d * task.channels + channel) * task.modes + n;
    reinterpret_cast<Complex*>(given.dweight)[to] = {all.x, -all.y};
    reinterpret_cast<Complex*>(given.drate)[to] = {drate.re, -drate.im};
  }
}

}  // namespace

void mode_convolution_backward_cuda(const ModeConvolutionBackward& task, void* stream) noexcept {
  const ModeConvolution& past = task.past;
  const dim3 blocks = {static_cast<unsigned>((past.channels + kChannels - 1) / kChannels),
                       static_cast<unsigned>(past.segments), static_cast<unsigned>(past.batch)};
  launch(backward, blocks, kThreads, 2 * kTile * sizeof(Number), stream, task);
  launch(add_up, static_cast<unsigned>(past.channels), kModeTaps, 0, stream, task);
}

}  // namespace longbow::kernels
