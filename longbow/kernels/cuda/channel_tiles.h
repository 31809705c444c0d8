#pragma once
// Few tokens of many channels stand beside each other in memory, but a product over tokens needs
// one channel. A block turns 16 channels of a segment of 1,024 tokens in shared memory, and a warp
// takes one channel of it: 16 chunks of 64 tokens are the rows of a left factor.
#ifdef __CUDACC__
#include "longbow/kernels/channel_rows.h"
#include "longbow/kernels/cuda/mma.h"

namespace longbow::kernels::channels {

using Number = __nv_bfloat16;

constexpr int kSteps = kChannelChunk / 16, kTiles = kChannelChunk / 8;
constexpr int kChunks = kChannelSegment / kChannelChunk;
constexpr int kChannels = 16;

__device__ __forceinline__ int lane_of() {
  return static_cast<int>(threadIdx.x) % 32;
}

// A tile in shared memory, [16 channels][16 chunks][64 tokens]. The second eight channels are
// moved by 16 banks.
constexpr int kStride = mma::padded(kChannelChunk), kChannel = kChunks * kStride, kHalf = 32;
constexpr int kTile = kChannels * kChannel + kHalf;

__device__ __forceinline__ int place_of(int channel, int token) {
  return channel * kChannel + channel / 8 * kHalf + token / kChannelChunk * kStride +
         token % kChannelChunk;
}

// Where a block stands: 16 channels of a segment.
struct Site {
  int64_t batch = blockIdx.z, segment = blockIdx.y, channel = blockIdx.x * int64_t{kChannels};
  int64_t first = segment * kChannelSegment;
  __device__ const Number* row(const ChannelRows& rows, int64_t token) const {
    return static_cast<const Number*>(rows.data) + batch * rows.batch + token * rows.token;
  }
};

// Calls body(channel, token) for eight channels of two tokens at a time.
template <class F>
__device__ __forceinline__ void for_pairs(const F& body) {
  for (int i = static_cast<int>(threadIdx.x); i < kChannelSegment; i += blockDim.x)
    body(i % 2 * 8, i / 2 * 2);
}

// Rows of tokens, turned; zeros outside.
__device__ inline void load_tile(Number* tile, const ChannelRows& rows, const Site& site,
                                 int64_t tokens, int64_t channels) {
  for_pairs([&](int channel, int token) {
    uint4 two[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int64_t n = site.first + token + k, c = site.channel + channel;
      two[k] = n >= 0 && n < tokens && c < channels
                   ? *reinterpret_cast<const uint4*>(site.row(rows, n) + c)
                   : uint4{0, 0, 0, 0};
    }
    const unsigned a[4] = {two[0].x, two[0].y, two[0].z, two[0].w},
                   b[4] = {two[1].x, two[1].y, two[1].z, two[1].w};
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const unsigned low = k % 2 ? a[k / 2] >> 16 : a[k / 2] & 0xffffu,
                     high = k % 2 ? b[k / 2] & 0xffff0000u : b[k / 2] << 16;
      *reinterpret_cast<uint32_t*>(tile + place_of(channel + k, token)) = low | high;
    }
  });
}

// Calls store(row, eight numbers) for the tokens and channels that exist.
template <class F>
__device__ __forceinline__ void read_tile(const Number* tile, const Site& site, int64_t tokens,
                                          int64_t channels, const F& store) {
  for_pairs([&](int channel, int token) {
    uint32_t pair[8];
#pragma unroll
    for (int k = 0; k < 8; ++k)
      pair[k] = *reinterpret_cast<const uint32_t*>(tile + place_of(channel + k, token));
    if (site.channel + channel >= channels) return;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if (site.first + token + k >= tokens) return;
      uint32_t eight[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        eight[i] = k == 0 ? (pair[2 * i] & 0xffffu) | pair[2 * i + 1] << 16
                          : pair[2 * i] >> 16 | (pair[2 * i + 1] & 0xffff0000u);
      store(site.first + token + k, site.channel + channel,
            uint4{eight[0], eight[1], eight[2], eight[3]});
    }
  });
}

// A channel of a tile as a left factor, and back.
__device__ __forceinline__ void load_channel(mma::A (&tokens)[kSteps], const Number* tile,
                                             int channel) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    tokens[step] = mma::a_of_rows(tile + place_of(channel, 16 * step), kStride);
}
__device__ __forceinline__ void store_channel(Number* tile, int channel,
                                              const mma::C (&y)[kTiles]) {
  const int g = lane_of() / 4, t = lane_of() % 4;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      *reinterpret_cast<uint32_t*>(tile +
                                   place_of(channel, (g + 8 * h) * kChannelChunk + 8 * n + 2 * t)) =
          mma::pack<Number>(y[n].part[2 * h], y[n].part[2 * h + 1]);
}

}  // namespace longbow::kernels::channels
#endif
