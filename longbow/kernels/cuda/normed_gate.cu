#include "longbow/kernels/normed_gate.h"

#include "longbow/kernels/cuda/feature_tiles.h"
#include "longbow/kernels/cuda/sigmoid.h"

namespace longbow::kernels {
namespace {

constexpr int kMostThreads = 512;
constexpr int64_t kMostParts = 1056;  // 8 blocks on each multiprocessor of a large GPU

// Sums over the threads of a block. Two places take turns, so that one barrier is enough.
template <int N>
struct RowSums {
  float* places;  // [2, 32, N]
  int turn = 0;

  __device__ void operator()(float (&sum)[N]) {
    const int warp = static_cast<int>(threadIdx.x) / 32, warps = static_cast<int>(blockDim.x) / 32;
#pragma unroll
    for (int other = 1; other < 32; other *= 2)
#pragma unroll
      for (float& part : sum) part += __shfl_xor_sync(0xffffffffu, part, other);
    float* place = places + turn * 32 * N;
    turn = 1 - turn;
    if (threadIdx.x % 32 == 0)
#pragma unroll
      for (int i = 0; i < N; ++i) place[warp * N + i] = sum[i];
    __syncthreads();
#pragma unroll
    for (float& part : sum) part = 0;
#pragma unroll 4
    for (int w = 0; w < warps; ++w)
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += place[w * N + i];
  }
};

// What a thread has of a row, 8 numbers of each; x of kWays directions. The next row's arrive while
// threads wait for the sums of this one.
template <int kWays>
struct Packs {
  uint4 gate = {}, dy = {}, x[kWays] = {};
};

template <int kWays>
struct Channels {
  const NormedGate& task;
  const void* dy;  // null in forward
  int64_t channel;
  bool there;
  float weight[8] = {};

  __device__ explicit Channels(const NormedGate& given, const void* gradient = nullptr)
      : task(given),
        dy(gradient),
        channel(static_cast<int>(threadIdx.x) * 8),
        there(channel < task.width) {
    if (there)
      for (int e = 0; e < 8; ++e) weight[e] = task.weight[blockIdx.y * task.width + channel + e];
  }
  __device__ int64_t place(int64_t token, int64_t stride) const {
    return token * stride + blockIdx.y * task.width + channel;
  }
  __device__ static uint4 read(const void* from, int64_t place) {
    return *reinterpret_cast<const uint4*>(static_cast<const Number*>(from) + place);
  }
  __device__ static void store(void* to, int64_t place, const float (&from)[8]) {
    *reinterpret_cast<uint4*>(static_cast<Number*>(to) + place) = packed(from);
  }
  __device__ Packs<kWays> load(int64_t token) const {
    Packs<kWays> packs;
    if (!there || token >= task.tokens) return packs;
    packs.gate = read(task.gate, place(token, task.gate_token));
    packs.x[0] = read(task.x, place(token, task.x_token));
    if constexpr (kWays == 2) packs.x[1] = read(task.other, place(token, task.other_token));
    if (dy) packs.dy = read(dy, place(token, task.groups * task.width));
    return packs;
  }
  // `share` is 1 / width.
  __device__ float factor(float squares, float share) const {
    return rsqrtf(squares * share + task.epsilon);
  }
};

template <int kWays>
__global__ void __launch_bounds__(kMostThreads) forward(NormedGate task) {
  unsigned char* const shared = dynamic_memory();
  RowSums<kWays> over_row = {reinterpret_cast<float*>(shared)};
  const Channels<kWays> at(task);
  const float share = 1 / static_cast<float>(task.width);
  Packs<kWays> next = at.load(blockIdx.x);
  for (int64_t token = blockIdx.x; token < task.tokens; token += gridDim.x) {
    const Packs<kWays> now = next;
    next = at.load(token + gridDim.x);
    float silu[8], x[8], sum[kWays] = {};
    spread(now.gate, silu);
#pragma unroll
    for (float& number : silu) number *= sigmoid(number);
#pragma unroll
    for (int way = 0; way < kWays; ++way) {
      spread(now.x[way], x);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum[way] += x[e] * silu[e] * (x[e] * silu[e]);
    }
    over_row(sum);
    if (!at.there) continue;
    float y[8] = {};
#pragma unroll
    for (int way = 0; way < kWays; ++way) {
      const float factor = at.factor(sum[way], share);
      spread(now.x[way], x);
#pragma unroll
      for (int e = 0; e < 8; ++e) y[e] += x[e] * factor;
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) y[e] *= silu[e] * at.weight[e];
    at.store(task.y, at.place(token, task.groups * task.width), y);
  }
}

// With u = x silu(gate), r its factor and v = dy weight, du = r (v - u r^2 mean(u v)).
template <int kWays>
__global__ void __launch_bounds__(kMostThreads) backward(NormedGateBackward given) {
  unsigned char* const shared = dynamic_memory();
  const auto& task = given.past;
  RowSums<2 * kWays> over_row = {reinterpret_cast<float*>(shared)};
  const Channels<kWays> at(task, given.dy);
  const float share = 1 / static_cast<float>(task.width);
  float dweight[8] = {};
  Packs<kWays> next = at.load(blockIdx.x);
  for (int64_t token = blockIdx.x; token < task.tokens; token += gridDim.x) {
    const Packs<kWays> now = next;
    next = at.load(token + gridDim.x);
    float gate[8], x[8], dy[8], s[8], sum[2 * kWays] = {};
    spread(now.gate, gate);
    spread(now.dy, dy);
#pragma unroll
    for (int e = 0; e < 8; ++e) s[e] = sigmoid(gate[e]);
#pragma unroll
    for (int way = 0; way < kWays; ++way) {
      spread(now.x[way], x);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float u = x[e] * gate[e] * s[e];
        sum[2 * way] += u * u;
        sum[2 * way + 1] += u * dy[e] * at.weight[e];
      }
    }
    over_row(sum);
    if (!at.there) continue;
    const int64_t place = at.place(token, task.groups * task.width);
    float dsilu[8] = {};
    spread(now.gate, gate);
    spread(now.dy, dy);
#pragma unroll
    for (int way = 0; way < kWays; ++way) {
      const float factor = at.factor(sum[2 * way], share),
                  mean = factor * factor * sum[2 * way + 1] * share;
      float dx[8];
      spread(now.x[way], x);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float silu = gate[e] * s[e], u = x[e] * silu,
                    du = factor * (dy[e] * at.weight[e] - u * mean);
        dx[e] = du * silu;
        dsilu[e] += du * x[e];
        dweight[e] += dy[e] * u * factor;
      }
      at.store(way == 0 ? given.dx : given.dother, place, dx);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) dsilu[e] *= s[e] * (1 + gate[e] * (1 - s[e]));
    at.store(given.dgate, place, dsilu);
  }
  if (!at.there) return;
  float* to = given.sums + (blockIdx.x * task.groups + blockIdx.y) * task.width + at.channel;
#pragma unroll
  for (int e = 0; e < 8; ++e) to[e] = dweight[e];
}

dim3 blocks_of(const NormedGate& task) {
  return {static_cast<unsigned>(normed_gate_parts(task.tokens)),
          static_cast<unsigned>(task.groups)};
}
int threads_of(const NormedGate& task) {
  return static_cast<int>((task.width / 8 + 31) / 32 * 32);
}

constexpr size_t bytes_of(int sums) {
  return 2 * 32 * sums * sizeof(float);
}

}  // namespace

int64_t normed_gate_parts(int64_t tokens) noexcept {
  return tokens < kMostParts ? tokens : kMostParts;
}

void normed_gate_cuda(const NormedGate& task, void* stream) noexcept {
  launch(task.other ? forward<2> : forward<1>, blocks_of(task), threads_of(task), bytes_of(2),
         stream, task);
}

void normed_gate_backward_cuda(const NormedGateBackward& task, void* stream) noexcept {
  launch(task.past.other ? backward<2> : backward<1>, blocks_of(task.past), threads_of(task.past),
         bytes_of(4), stream, task);
}

}  // namespace longbow::kernels
