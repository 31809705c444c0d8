#include "longbow/kernels/skip_norm.h"

#include "longbow/kernels/cuda/feature_tiles.h"

namespace longbow::kernels {
namespace {

constexpr int kMostThreads = 512;
constexpr int64_t kMostParts = 1056;  // 8 blocks on each multiprocessor of a large GPU

// Sums over the threads of a block. Two places take turns, so that one barrier is enough.
struct RowSums {
  float2* places;  // [2, 32]
  int turn = 0;

  __device__ float2 operator()(float2 sum) {
    const int warp = static_cast<int>(threadIdx.x) / 32, warps = static_cast<int>(blockDim.x) / 32;
#pragma unroll
    for (int other = 1; other < 32; other *= 2) {
      sum.x += __shfl_xor_sync(0xffffffffu, sum.x, other);
      sum.y += __shfl_xor_sync(0xffffffffu, sum.y, other);
    }
    float2* place = places + turn * 32;
    turn = 1 - turn;
    if (threadIdx.x % 32 == 0) place[warp] = sum;
    __syncthreads();
    float2 all = {0, 0};
    for (int i = 0; i < warps; ++i) all = {all.x + place[i].x, all.y + place[i].y};
    return all;
  }
};

// What a thread has of a row: b = o + skip x, and u = b silu(gate).
struct Channels {
  int64_t channel;
  bool there;
  float skip[8] = {}, weight[8] = {};
  float x[8] = {}, gate[8] = {}, b[8] = {}, u[8] = {};

  __device__ explicit Channels(const SkipNorm& task)
      : channel(static_cast<int>(threadIdx.x) * 8), there(channel < task.width) {
    const int64_t first = blockIdx.y * task.width + channel;
    if (there)
      for (int e = 0; e < 8; ++e) {
        skip[e] = task.skip[first + e];
        weight[e] = task.weight[first + e];
      }
  }
  __device__ int64_t place(const SkipNorm& task, int64_t token, int64_t stride) const {
    return token * stride + blockIdx.y * task.width + channel;
  }
  __device__ static void load(float (&to)[8], const void* from, int64_t place) {
    spread(*reinterpret_cast<const uint4*>(static_cast<const Number*>(from) + place), to);
  }
  __device__ static void store(void* to, int64_t place, const float (&from)[8]) {
    *reinterpret_cast<uint4*>(static_cast<Number*>(to) + place) = packed(from);
  }
  __device__ void load(const SkipNorm& task, int64_t token) {
    if (!there) return;
    float o[8];
    load(o, task.o, place(task, token, task.o_token));
    load(x, task.x, place(task, token, task.x_token));
    load(gate, task.gate, place(task, token, task.gate_token));
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      b[e] = o[e] + skip[e] * x[e];
      u[e] = b[e] * gate[e] * sigmoid(gate[e]);
    }
  }
  __device__ static float sigmoid(float x) {
    return 1 / (1 + __expf(-x));
  }
};

__global__ void __launch_bounds__(kMostThreads) forward(SkipNorm task) {
  unsigned char* const shared = dynamic_memory();
  RowSums over_row = {reinterpret_cast<float2*>(shared)};
  Channels at(task);
  for (int64_t token = blockIdx.x; token < task.tokens; token += gridDim.x) {
    at.load(task, token);
    float2 sum = {0, 0};
#pragma unroll
    for (int e = 0; e < 8; ++e) sum.x += at.u[e] * at.u[e];
    const float factor = rsqrtf(over_row(sum).x / static_cast<float>(task.width) + task.epsilon);
    if (!at.there) continue;
    float y[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) y[e] = at.u[e] * factor * at.weight[e];
    at.store(task.y, at.place(task, token, task.groups * task.width), y);
  }
}

__global__ void __launch_bounds__(kMostThreads) backward(SkipNormBackward given) {
  unsigned char* const shared = dynamic_memory();
  const auto& task = given.past;
  RowSums over_row = {reinterpret_cast<float2*>(shared)};
  Channels at(task);
  float dskip[8] = {}, dweight[8] = {};
  for (int64_t token = blockIdx.x; token < task.tokens; token += gridDim.x) {
    const int64_t place = at.place(task, token, task.groups * task.width);
    float dy[8] = {};
    at.load(task, token);
    if (at.there) at.load(dy, given.dy, place);
    float2 sum = {0, 0};
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      sum.x += at.u[e] * at.u[e];
      sum.y += at.u[e] * dy[e] * at.weight[e];
    }
    const float2 all = over_row(sum);
    const float width = static_cast<float>(task.width),
                factor = rsqrtf(all.x / width + task.epsilon),
                mean = factor * factor * all.y / width;
    if (!at.there) continue;
    float d_o[8], dx[8], dgate[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float s = at.sigmoid(at.gate[e]), du = factor * (dy[e] * at.weight[e] - at.u[e] * mean);
      d_o[e] = du * at.gate[e] * s;
      dx[e] = d_o[e] * at.skip[e];
      dgate[e] = du * at.b[e] * s * (1 + at.gate[e] * (1 - s));
      dskip[e] += d_o[e] * at.x[e];
      dweight[e] += dy[e] * at.u[e] * factor;
    }
    at.store(given.d_o, place, d_o);
    at.store(given.dx, place, dx);
    at.store(given.dgate, place, dgate);
  }
  if (!at.there) return;
  const int64_t all = task.groups * task.width;
  float* to = given.sums + blockIdx.x * 2 * all + blockIdx.y * task.width + at.channel;
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    to[e] = dskip[e];
    to[all + e] = dweight[e];
  }
}

dim3 blocks_of(const SkipNorm& task) {
  return {static_cast<unsigned>(skip_norm_parts(task.tokens)), static_cast<unsigned>(task.groups)};
}
int threads_of(const SkipNorm& task) {
  return static_cast<int>((task.width / 8 + 31) / 32 * 32);
}

constexpr size_t kBytes = 2 * 32 * sizeof(float2);

}  // namespace

int64_t skip_norm_parts(int64_t tokens) noexcept {
  return tokens < kMostParts ? tokens : kMostParts;
}

void skip_norm_cuda(const SkipNorm& task, void* stream) noexcept {
  launch(forward, blocks_of(task), threads_of(task), kBytes, stream, task);
}

void skip_norm_backward_cuda(const SkipNormBackward& task, void* stream) noexcept {
  launch(backward, blocks_of(task.past), threads_of(task.past), kBytes, stream, task);
}

}  // namespace longbow::kernels
