// A thread has eight neighbouring channels, the same of every token that it meets, and with them
// their weights; backward also the sums over tokens, which it keeps to the end.
#include <cuda_runtime.h>

#include "longbow/kernels/blend.h"
#include "longbow/kernels/cuda/eight.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256, kPack = 8, kMost = Blend::kMostFields;

// The channels of a thread and the tokens that its block has at once.
struct Place {
  int packs, rows, row, head, channel;
  bool there;

  __device__ explicit Place(const Blend& task)
      : packs(static_cast<int>(task.heads * task.width) / kPack),
        rows(kThreads / packs),
        row(static_cast<int>(threadIdx.x) / packs) {
    const int column = static_cast<int>(threadIdx.x) % packs * kPack;
    head = column / static_cast<int>(task.width);
    channel = column % static_cast<int>(task.width);
    there = row < rows;
  }
  template <class T, class Rows>
  __device__ T* in(const Rows& x, int64_t batch, int64_t token) const {
    return static_cast<T*>(x.data) + batch * x.batch + head * x.head + token * x.token + channel;
  }
};

template <class T, int F>
__device__ void read_weights(const Blend& task, const Place& place, Eight (&weights)[F]) {
#pragma unroll
  for (int f = 0; f < F; ++f)
    weights[f] = read(static_cast<const T*>(task.weights) +
                      (f * task.heads + place.head) * task.width + place.channel);
}

template <class T, int F>
__global__ void __launch_bounds__(kThreads) forward(Blend task) {
  const Place place(task);
  if (!place.there) return;
  Eight weights[F];
  read_weights<T>(task, place, weights);
  for (int64_t row = blockIdx.x * int64_t{place.rows} + place.row; row < task.batch * task.tokens;
       row += gridDim.x * int64_t{place.rows}) {
    const int64_t batch = row / task.tokens, token = row % task.tokens;
    Eight y = {};
#pragma unroll
    for (int f = 0; f < F; ++f) {
      const auto x = read(place.in<const T>(task.from[f], batch, token));
#pragma unroll
      for (int i = 0; i < kPack; ++i) y.value[i] += weights[f].value[i] * x.value[i];
    }
    write(place.in<T>(task.out, batch, token), y);
  }
}

template <class T, int F>
__global__ void __launch_bounds__(kThreads) backward(BlendBackward all) {
  const auto& task = all.past;
  const Place place(task);
  Eight weights[F], sums[F] = {};
  if (place.there) read_weights<T>(task, place, weights);
  for (int64_t row = blockIdx.x * int64_t{place.rows} + place.row;
       place.there && row < task.batch * task.tokens; row += gridDim.x * int64_t{place.rows}) {
    const int64_t batch = row / task.tokens, token = row % task.tokens;
    const auto dy = read(place.in<const T>(all.dout, batch, token));
#pragma unroll
    for (int f = 0; f < F; ++f) {
      const auto x = read(place.in<const T>(task.from[f], batch, token));
      Eight dx;
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        sums[f].value[i] += dy.value[i] * x.value[i];
        dx.value[i] = weights[f].value[i] * dy.value[i];
      }
      write(place.in<T>(all.dfrom[f], batch, token), dx);
    }
  }
  // Tokens of the block one after another, so that sums are the same every time.
  auto* const by_thread = reinterpret_cast<float*>(dynamic_memory());
  const int64_t channels = task.heads * task.width;
#pragma unroll
  for (int f = 0; f < F; ++f) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPack; ++i) by_thread[threadIdx.x * kPack + i] = sums[f].value[i];
    __syncthreads();
    for (auto c = static_cast<int>(threadIdx.x); c < channels; c += kThreads) {
      float sum = 0;
      for (int r = 0; r < place.rows; ++r) sum += by_thread[r * channels + c];
      all.sums[(blockIdx.x * F + f) * channels + c] = sum;
    }
  }
}

template <class T, class Body>
void with_fields(int fields, const Body& body) {
  if (fields == 1) return body.template operator()<T, 1>();
  if (fields == 2) return body.template operator()<T, 2>();
  if (fields == 3) return body.template operator()<T, 3>();
  body.template operator()<T, kMost>();
}
template <class Body>
void with_types(const Blend& task, const Body& body) {
  if (task.type == Element::bfloat16) return with_fields<__nv_bfloat16>(task.fields, body);
  with_fields<__half>(task.fields, body);
}

}  // namespace

int64_t blend_parts(const Blend& task) noexcept {
  constexpr int64_t kMostParts = 528;  // four blocks for each multiprocessor of a large GPU
  const int64_t rows = kThreads / (task.heads * task.width / kPack);
  const int64_t blocks = (task.batch * task.tokens + rows - 1) / rows;
  return blocks < kMostParts ? blocks : kMostParts;
}

void blend_cuda(const Blend& task, void* stream) noexcept {
  const auto blocks = static_cast<unsigned>(2 * blend_parts(task));
  with_types(task,
             [&]<class T, int F>() { launch(forward<T, F>, blocks, kThreads, 0, stream, task); });
}

void blend_backward_cuda(const BlendBackward& task, void* stream) noexcept {
  with_types(task.past, [&]<class T, int F>() {
    launch(backward<T, F>, static_cast<unsigned>(task.parts), kThreads,
           kThreads * kPack * sizeof(float), stream, task);
  });
}

}  // namespace longbow::kernels
