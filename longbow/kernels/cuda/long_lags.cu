// With l = 32 a + b, sum_t dy_t u_{t - l} is a product over places s: of u_{s - 32 a}, where rows
// of the left factor stand 32 tokens apart in memory, and dy_{s + b}, of which neighbouring tiles
// share their registers. A warp adds up 1,024 lags over all places and sequences.
#include "longbow/kernels/cuda/channel_tiles.h"
#include "longbow/kernels/long_convolution.h"

namespace longbow::kernels {
namespace {

using namespace channels;

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kStep = 32, kLines = 16 * kStep;                       // lags of a tile
constexpr int kOwn = static_cast<int>(kLagBlock) / kLines / kWarps;  // tiles of a warp
constexpr int kPlaces = kChannelSegment, kWindow = static_cast<int>(kLagBlock) - kStep + kPlaces;
constexpr int kSlopes = kPlaces + kStep;

// Rows that are 32 tokens apart are read without bank conflicts.
__device__ __forceinline__ int place_in(int token) {
  return token + token / kStep * 8;
}

struct Tiles {
  Number u[kWindow + kWindow / kStep * 8], dy[2][kSlopes];  // the second dy begins one later
};

__device__ void load(Tiles& to, const Number* u, const Number* dy, int64_t first, int64_t window,
                     int64_t tokens) {
  for (int i = static_cast<int>(threadIdx.x) * 8; i < kWindow; i += kThreads * 8) {
    const bool there = window + i >= 0 && window + i < tokens;
    mma::copy_async(to.u + place_in(i), there ? u + window + i : u, there);
  }
  mma::commit_copies();
  for (int i = static_cast<int>(threadIdx.x); i < kSlopes; i += kThreads)
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int64_t at = first + i + k;
      to.dy[k][i] = at >= 0 && at < tokens ? dy[at] : __float2bfloat16(0);
    }
  mma::await_copies<0>();
}

// Lags from that of line 0 on, over the places of a segment.
__device__ __forceinline__ void add_products(mma::C (&sums)[kOwn][4], const Tiles& tiles, int tile,
                                             int steps) {
  const int g = lane_of() / 4, t = lane_of() % 4;
  const Number* dy = tiles.dy[g % 2] + (g - g % 2) + 2 * t;
  const auto word = [&](int at) { return *reinterpret_cast<const uint32_t*>(dy + at); };
  uint32_t slope[5] = {0, 0, word(0), word(8), word(16)};
  for (int step = 0; step < steps; ++step) {
    slope[0] = slope[2];
    slope[1] = slope[3];
    slope[2] = slope[4];
    slope[3] = word(16 * step + 24);
    slope[4] = word(16 * step + 32);
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      mma::A u;
      mma::load_matrices<false>(u.part, [&](int i) {
        const int line = (tile + k) * 16 + i % 16;
        return tiles.u + place_in(kWindow - kPlaces - line * kStep + 16 * step + i / 16 * 8);
      });
#pragma unroll
      for (int n = 0; n < 4; ++n) mma::multiply<Number>(sums[k][n], u, {{slope[n], slope[n + 1]}});
    }
  }
}

__global__ void __launch_bounds__(kThreads) add_up(LongLags task) {
  __shared__ __align__(16) Tiles tiles;
  const int64_t tokens = task.segments * kChannelSegment, channel = blockIdx.x;
  const int64_t lags = gridDim.y * kLagBlock,
                lag = blockIdx.y * kLagBlock - (task.ahead ? tokens : 0);
  const int tile = static_cast<int>(threadIdx.x) / 32 * kOwn;
  mma::C sums[kOwn][4] = {};
  for (int64_t b = 0; b < task.batch; ++b) {
    const int64_t row = (b * task.channels + channel) * tokens;
    // Places begin 31 before the first token, which lag b reads at place -b.
    for (int64_t segment = 0; segment <= task.segments; ++segment) {
      const int64_t first = segment * kPlaces - kStep, window = first - lag - (kWindow - kPlaces);
      if (window >= tokens || window + kWindow <= 0) continue;
      load(tiles, static_cast<const Number*>(task.u) + row,
           static_cast<const Number*>(task.dy) + row, first, window, tokens);
      __syncthreads();
      // Behind the last segment are those places alone.
      const int64_t end = first - lag - tile * kLines + kPlaces,
                    begin = first - lag - (tile + kOwn) * kLines + kStep;  // of u in this warp
      if (end > 0 && begin < tokens)
        add_products(sums, tiles, tile, segment < task.segments ? kPlaces / 16 : kStep / 16);
      __syncthreads();
    }
  }
  const int g = lane_of() / 4, t = lane_of() % 4;
  float* to = task.sums + channel * lags + blockIdx.y * kLagBlock;
#pragma unroll
  for (int k = 0; k < kOwn; ++k)
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        *reinterpret_cast<float2*>(to + (tile + k) * kLines + (g + 8 * h) * kStep + 8 * n +
                                   2 * t) = {sums[k][n].part[2 * h], sums[k][n].part[2 * h + 1]};
}

}  // namespace

void long_lags_cuda(const LongLags& task, void* stream) noexcept {
  const dim3 blocks = {static_cast<unsigned>(task.channels),
                       static_cast<unsigned>(long_lags(task.segments, task.ahead) / kLagBlock), 1};
  launch(add_up, blocks, kThreads, 0, stream, task);
}

}  // namespace longbow::kernels
