// A thread has eight neighbouring channels, the same of every token that it meets; backward it
// keeps their sums over tokens to the end.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/eight.h"
#include "longbow/kernels/silu_heads.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256, kPack = 8;

// The channels of a thread and the tokens that its block has at once.
struct Place {
  int packs, rows, row, column;

  __device__ explicit Place(const SiluHeads& task)
      : packs(static_cast<int>(task.width) / kPack),
        rows(kThreads / packs),
        row(static_cast<int>(threadIdx.x) / packs),
        column(static_cast<int>(threadIdx.x) % packs * kPack) {}
  // body(token) for all tokens of the thread.
  template <class F>
  __device__ void each(const SiluHeads& task, const F& body) const {
    for (int64_t token = blockIdx.x * int64_t{rows} + row; row < rows && token < task.tokens;
         token += gridDim.x * int64_t{rows})
      body(token);
  }
};

__device__ float sigmoid(float x) {
  return 1 / (1 + __expf(-x));
}

template <class T, int R>
__global__ void __launch_bounds__(kThreads) forward(SiluHeads task) {
  const Place place(task);
  Eight gain[R], offset[R];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    gain[r] = read(static_cast<const T*>(task.gain) + r * task.width + place.column);
    offset[r] = read(static_cast<const T*>(task.offset) + r * task.width + place.column);
  }
  place.each(task, [&](int64_t token) {
    Eight z = read(static_cast<const T*>(task.z) + token * task.stride + place.column);
#pragma unroll
    for (float& value : z.value) value *= sigmoid(value);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      Eight y = offset[r];
#pragma unroll
      for (int i = 0; i < kPack; ++i) y.value[i] += gain[r].value[i] * z.value[i];
      write(static_cast<T*>(task.y[r]) + token * task.width + place.column, y);
    }
  });
}

template <class T, int R>
__global__ void __launch_bounds__(kThreads) backward(SiluHeadsBackward all) {
  const auto& task = all.past;
  const Place place(task);
  Eight gain[R], dgain[R] = {}, doffset[R] = {};
#pragma unroll
  for (int r = 0; r < R; ++r)
    gain[r] = read(static_cast<const T*>(task.gain) + r * task.width + place.column);
  place.each(task, [&](int64_t token) {
    const Eight z = read(static_cast<const T*>(task.z) + token * task.stride + place.column);
    Eight dz = {};
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Eight dy = read(static_cast<const T*>(all.dy[r]) + token * task.width + place.column);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const float x = z.value[i], s = sigmoid(x);
        doffset[r].value[i] += dy.value[i];
        dgain[r].value[i] += dy.value[i] * x * s;
        dz.value[i] += dy.value[i] * gain[r].value[i] * s * (1 + x * (1 - s));
      }
    }
    write(static_cast<T*>(all.dz) + token * task.width + place.column, dz);
  });
  // Tokens of the block one after another, so that sums are the same every time.
  auto* const by_thread = reinterpret_cast<float*>(dynamic_memory());
  const auto width = static_cast<int>(task.width);
#pragma unroll
  for (int n = 0; n < 2 * R; ++n) {
    const Eight& sum = n < R ? dgain[n % R] : doffset[n % R];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPack; ++i) by_thread[threadIdx.x * kPack + i] = sum.value[i];
    __syncthreads();
    for (auto c = static_cast<int>(threadIdx.x); c < width; c += kThreads) {
      float total = 0;
      for (int row = 0; row < place.rows; ++row) total += by_thread[row * width + c];
      all.sums[(blockIdx.x * int64_t{2 * R} + n) * width + c] = total;
    }
  }
}

template <class T, class Body>
void with_copies(int copies, const Body& body) {
  if (copies == 1) return body.template operator()<T, 1>();
  if (copies == 2) return body.template operator()<T, 2>();
  if (copies == 3) return body.template operator()<T, 3>();
  body.template operator()<T, SiluHeads::kMostCopies>();
}
template <class Body>
void with_types(const SiluHeads& task, const Body& body) {
  if (task.type == Element::bfloat16) return with_copies<__nv_bfloat16>(task.copies, body);
  with_copies<__half>(task.copies, body);
}

}  // namespace

int64_t silu_heads_parts(const SiluHeads& task) noexcept {
  constexpr int64_t kMostParts = 264;  // two blocks for each multiprocessor of a large GPU
  const int64_t rows = kThreads / (task.width / kPack);
  const int64_t blocks = (task.tokens + rows - 1) / rows;
  return blocks < kMostParts ? blocks : kMostParts;
}

void silu_heads_cuda(const SiluHeads& task, void* stream) noexcept {
  const auto blocks = static_cast<unsigned>(2 * silu_heads_parts(task));
  with_types(task,
             [&]<class T, int R>() { launch(forward<T, R>, blocks, kThreads, 0, stream, task); });
}

void silu_heads_backward_cuda(const SiluHeadsBackward& task, void* stream) noexcept {
  with_types(task.past, [&]<class T, int R>() {
    launch(backward<T, R>, static_cast<unsigned>(task.parts), kThreads,
           kThreads * kPack * sizeof(float), stream, task);
  });
}

}  // namespace longbow::kernels
