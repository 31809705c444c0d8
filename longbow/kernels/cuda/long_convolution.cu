// A warp holds 16 chunks of y of a channel, [16, 64]. For a distance of m chunks it multiplies the
// 16 chunks of u that stand m before with the Toeplitz matrix of the lags 64 m - 63 .. 64 m + 63,
// of which it has all blocks in 15 registers. A block of threads keeps two segments of u, so that
// 16 distances find their chunks, and then loads the segment before.
#include "longbow/kernels/long_convolution.h"

#include "longbow/kernels/cuda/channel_tiles.h"

namespace longbow::kernels {
namespace {

using namespace channels;

constexpr int kWarps = 8, kThreads = 32 * kWarps, kOwn = kChannels / kWarps;
constexpr int kRows = 64, kColumns = 32;  // of the table that a block lays

__device__ float tap(const LongTaps& task, int64_t lag, int64_t channel) {
  if (lag < 0)
    return task.ahead && -lag <= task.tokens ? task.ahead[(-lag - 1) * task.ahead_row + channel]
                                             : 0;
  const float past = lag < task.tokens ? task.past[lag * task.past_row + channel] : 0;
  return lag == 0 ? past + task.skip[channel] : past;
}

__global__ void __launch_bounds__(kColumns* kWarps) lay(LongTaps task) {
  __shared__ float taps[kRows + 1][kColumns + 1];
  const int64_t reach = task.reach, first = blockIdx.x * int64_t{kRows},
                channel = blockIdx.y * int64_t{kColumns};
  const int column = static_cast<int>(threadIdx.x) % kColumns,
            own = static_cast<int>(threadIdx.x) / kColumns;
  for (int row = own; row <= kRows; row += kWarps) {
    const int64_t lag = reach - (first + row);
    taps[row][column] = channel + column < task.channels
                            ? tap(task, task.turned ? -lag : lag, channel + column)
                            : 0;
  }
  __syncthreads();
  for (int c = own; c < kColumns && channel + c < task.channels; c += kWarps) {
    auto* to = static_cast<Number*>(task.table) + (channel + c) * 4 * reach + first;
    for (int row = column; row < kRows; row += kColumns) {
      to[row] = __float2bfloat16(taps[row][c]);
      to[row + 2 * reach] = __float2bfloat16(taps[row + 1][c]);
    }
  }
}

// y += the chunks from `chunk` on, times the taps of a distance. `words` is where lag 0 of this
// thread would be.
__device__ __forceinline__ void add_distance(mma::C (&y)[kTiles], const Number* tiles, int channel,
                                             int chunk, const uint32_t* words, int distance) {
  uint32_t block[2 * kTiles - 1];
#pragma unroll
  for (int i = 0; i < 2 * kTiles - 1; ++i)
    block[i] = words[-(distance * (kChannelChunk / 2) + 4 * (i - kTiles + 1))];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    mma::A u;
    mma::load_matrices<false>(u.part, [&](int i) {
      const int at = (chunk + i % 16) & (2 * kChunks - 1);
      return tiles + at / kChunks * kTile + place_of(channel, 0) + at % kChunks * kStride +
             16 * step + i / 16 * 8;
    });
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
      mma::multiply<Number>(y[n], u, {{block[n - 2 * step + 7], block[n - 2 * step + 6]}});
  }
}

__global__ void __launch_bounds__(kThreads, 2) convolve(LongConvolution task) {
  auto* tiles = reinterpret_cast<Number*>(dynamic_memory());
  const Site site;
  const int warp = static_cast<int>(threadIdx.x) / 32, g = lane_of() / 4, t = lane_of() % 4;
  const auto own = static_cast<int>(site.segment), all = static_cast<int>(task.segments);
  const int64_t reach = task.reach;
  const auto load = [&](int segment) {
    Site other = site;
    other.first = segment * int64_t{kChannelSegment};
    load_tile(tiles + (segment & 1) * kTile, task.u, other, task.tokens, task.channels);
  };
  mma::C y[kOwn][kTiles] = {};
  const int lowest = task.ahead ? own - all : 0, highest = task.past ? own : 0;
  load(own - lowest);
  for (int group = lowest; group <= highest; ++group) {
    load(own - group - 1);
    __syncthreads();
    const int end = task.past ? (group + 1) * kChunks : min((group + 1) * kChunks, 1);
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      const int channel = warp + kWarps * k;
      if (site.channel + channel >= task.channels) continue;
      // The largest lag comes first. A thread's lags x = 8 i + g - 2t and x - 1 are one word, of
      // the second copy where x is odd.
      const auto* words = reinterpret_cast<const uint32_t*>(
          static_cast<const Number*>(task.table) + (site.channel + channel) * 4 * reach +
          (g % 2) * 2 * reach + reach - g - g % 2 + 2 * t);
      for (int distance = group * kChunks; distance < end; ++distance)
        add_distance(y[k], tiles, channel, own * kChunks - distance, words, distance);
    }
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < kOwn; ++k) store_channel(tiles, warp + kWarps * k, y[k]);
  __syncthreads();
  read_tile(tiles, site, task.tokens, task.channels,
            [&](int64_t n, int64_t channel, const uint4& eight) {
              *reinterpret_cast<uint4*>(const_cast<Number*>(site.row(task.y, n)) + channel) = eight;
            });
}

__global__ void __launch_bounds__(kThreads) turn(TurnedRows task) {
  __shared__ __align__(16) Number tile[kTile];
  const Site site;
  load_tile(tile, task.from, site, task.tokens, task.channels);
  __syncthreads();
  constexpr int kPacks = kChannelSegment / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kChannels * kPacks; i += kThreads) {
    const int c = i / kPacks, token = i % kPacks * 8;
    if (site.channel + c >= task.channels) return;
    auto* to = static_cast<Number*>(task.to) +
               ((site.batch * task.channels + site.channel + c) * task.segments + site.segment) *
                   kChannelSegment +
               token;
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(tile + place_of(c, token));
  }
}

dim3 blocks_of(int64_t channels, int64_t segments, int64_t batch) {
  return {static_cast<unsigned>((channels + kChannels - 1) / kChannels),
          static_cast<unsigned>(segments), static_cast<unsigned>(batch)};
}

}  // namespace

void long_taps_cuda(const LongTaps& task, void* stream) noexcept {
  const dim3 blocks = {static_cast<unsigned>(2 * task.reach / kRows),
                       static_cast<unsigned>((task.channels + kColumns - 1) / kColumns), 1};
  launch(lay, blocks, kColumns * kWarps, 0, stream, task);
}

void long_convolution_cuda(const LongConvolution& task, void* stream) noexcept {
  launch(convolve, blocks_of(task.channels, task.segments, task.batch), kThreads,
         2 * kTile * sizeof(Number), stream, task);
}

void turned_rows_cuda(const TurnedRows& task, void* stream) noexcept {
  launch(turn, blocks_of(task.channels, task.segments, task.batch), kThreads, 0, stream, task);
}

}  // namespace longbow::kernels
