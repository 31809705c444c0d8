// A warp has a row to itself, kPacks times 32 x 4 numbers. With r = 1 / sqrt(mean x^2 + eps),
// s = sigmoid(gate x) and g = dy,
//   dx = r gain g s + g gain x r s (1 - s) gate - x r^3 / C sum_c (gain g s x),
//   dgain = sum g s x r,   dgate = sum g gain x r s (1 - s) x,
// where s is 1 without a gate. A warp adds the last two up over its rows, a thread block over its
// warps, in one order.
#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/cuda/sigmoid.h"
#include "longbow/kernels/rms_gate.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kPack = 4;

__device__ __forceinline__ float sum_of_warp(float x) {
#pragma unroll
  for (int far = 16; far > 0; far /= 2) x += __shfl_xor_sync(0xffffffffu, x, far);
  return x;
}

template <class T>
struct alignas(kPack * sizeof(T)) Pack {
  T item[kPack];
};

// The numbers of a row that a thread has, zeros behind its end.
template <int kPacks>
struct Row {
  float item[kPacks][kPack];

  template <class T>
  __device__ __forceinline__ void load(const T* from, int packs) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int pack = p * 32 + static_cast<int>(threadIdx.x) % 32;
      Pack<T> found = {};
      if (from && pack < packs) found = reinterpret_cast<const Pack<T>*>(from)[pack];
#pragma unroll
      for (int i = 0; i < kPack; ++i) item[p][i] = static_cast<float>(found.item[i]);
    }
  }
  template <class T>
  __device__ __forceinline__ void store(T* to, int packs) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int pack = p * 32 + static_cast<int>(threadIdx.x) % 32;
      Pack<T> made;
#pragma unroll
      for (int i = 0; i < kPack; ++i) made.item[i] = static_cast<T>(item[p][i]);
      if (pack < packs) reinterpret_cast<Pack<T>*>(to)[pack] = made;
    }
  }
  // f(item, p, i) for all.
  template <class F>
  __device__ __forceinline__ void each(const F& f) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
#pragma unroll
      for (int i = 0; i < kPack; ++i) f(item[p][i], p, i);
  }
};

template <int kPacks>
__device__ __forceinline__ float inverse_root(Row<kPacks>& x, const RmsGate& task) {
  float squares = 0;
  x.each([&](float one, int, int) { squares += one * one; });
  return rsqrtf(sum_of_warp(squares) / static_cast<float>(task.width) +
                static_cast<float>(task.epsilon));
}

__device__ __forceinline__ float opened(const RmsGate& task, float gate, float x) {
  return task.gate ? sigmoid(gate * x) : 1;
}

template <class T, int kPacks>
__global__ void __launch_bounds__(kThreads) normalise(RmsGateForward all) {
  const auto& task = all.past;
  const int packs = static_cast<int>(task.width) / kPack;
  const int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.x / 32;
  if (row >= task.rows) return;
  Row<kPacks> x, gain, gate;
  x.load(task.x + row * task.width, packs);
  gain.load(task.gain, packs);
  gate.load(task.gate, packs);
  const float root = inverse_root(x, task);
  x.each([&](float& one, int p, int i) {
    one = gain.item[p][i] * one * root * opened(task, gate.item[p][i], one);
  });
  x.store(static_cast<T*>(all.y) + row * task.width, packs);
}

template <class T, int kPacks>
__global__ void __launch_bounds__(kThreads) differentiate(RmsGateBackward all) {
  __shared__ float sums[2][kPacks * 32 * kPack];
  const auto& task = all.past;
  const int packs = static_cast<int>(task.width) / kPack;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  Row<kPacks> gain, gate, dgain = {}, dgate = {};
  gain.load(task.gain, packs);
  gate.load(task.gate, packs);
  for (int64_t row = blockIdx.x * int64_t{kWarps} + warp; row < task.rows;
       row += gridDim.x * int64_t{kWarps}) {
    Row<kPacks> x, g;
    x.load(task.x + row * task.width, packs);
    g.load(static_cast<const T*>(all.dy) + row * task.width, packs);
    const float root = inverse_root(x, task);
    float whole = 0;
    x.each([&](float one, int p, int i) {
      whole += gain.item[p][i] * g.item[p][i] * opened(task, gate.item[p][i], one) * one;
    });
    const float back = sum_of_warp(whole) * root * root * root / static_cast<float>(task.width);
    x.each([&](float& one, int p, int i) {
      const float open = opened(task, gate.item[p][i], one), slope = g.item[p][i];
      const float turning =
          task.gate ? slope * gain.item[p][i] * one * root * open * (1 - open) : 0;
      dgain.item[p][i] += slope * open * one * root;
      dgate.item[p][i] += turning * one;
      one = root * gain.item[p][i] * slope * open + turning * gate.item[p][i] - one * back;
    });
    x.store(all.dx + row * task.width, packs);
  }
  for (int turn = 0; turn < kWarps; ++turn) {
    if (warp == turn)
      dgain.each([&](float one, int p, int i) {
        const int at = (p * 32 + lane) * kPack + i;
        sums[0][at] = turn == 0 ? one : sums[0][at] + one;
        sums[1][at] = turn == 0 ? dgate.item[p][i] : sums[1][at] + dgate.item[p][i];
      });
    __syncthreads();
  }
  float* const to = all.dparameters + blockIdx.x * 2 * task.width;
  for (int i = static_cast<int>(threadIdx.x); i < task.width; i += kThreads) {
    to[i] = sums[0][i];
    to[task.width + i] = sums[1][i];
  }
}

template <class F>
void with_shape(const RmsGate& task, const F& body) {
  const auto with_width = [&]<class T>() {
    if (task.width <= 128) return body.template operator()<T, 1>();
    if (task.width <= 256) return body.template operator()<T, 2>();
    if (task.width <= 512) return body.template operator()<T, 4>();
    body.template operator()<T, 8>();
  };
  if (task.type == Element::float32) return with_width.template operator()<float>();
  if (task.type == Element::bfloat16) return with_width.template operator()<__nv_bfloat16>();
  with_width.template operator()<__half>();
}

}  // namespace

int64_t rms_gate_blocks(int64_t rows) noexcept {
  constexpr int64_t kBusy = 528;  // four thread blocks for each multiprocessor
  const int64_t most = (rows + kWarps - 1) / kWarps;
  return most < kBusy ? most : kBusy;
}

void rms_gate_cuda(const RmsGateForward& task, void* stream) noexcept {
  with_shape(task.past, [&]<class T, int kPacks>() {
    const auto blocks = static_cast<unsigned>((task.past.rows + kWarps - 1) / kWarps);
    launch(normalise<T, kPacks>, blocks, kThreads, 0, stream, task);
  });
}

void rms_gate_backward_cuda(const RmsGateBackward& task, void* stream) noexcept {
  with_shape(task.past, [&]<class T, int kPacks>() {
    launch(differentiate<T, kPacks>, static_cast<unsigned>(task.blocks), kThreads, 0, stream, task);
  });
}

}  // namespace longbow::kernels
