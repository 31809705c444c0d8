// A thread takes eight neighbouring numbers of a row.
#include "longbow/kernels/token_gates.h"

#include "longbow/kernels/cuda/eight.h"
#include "longbow/kernels/cuda/sigmoid.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256, kPack = 8;

struct Place {
  int64_t row, column;
  bool there;

  __device__ Place(int64_t tokens, int64_t width) {
    const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x, packs = width / kPack;
    row = i / packs;
    column = i % packs * kPack;
    there = row < tokens;
  }
  template <class T>
  __device__ T* at(const GateRows& rows) const {
    return static_cast<T*>(rows.data) + row * rows.stride + column;
  }
  template <class T>
  __device__ Eight of(const GateRows& rows) const {
    return read(at<T>(rows));
  }
};

// The slope of silu at x, whose sigmoid is s.
__device__ float slope(float x, float s) {
  return s * (1 + x * (1 - s));
}

template <class T>
__global__ void __launch_bounds__(kThreads) silu_product(SiluProduct task) {
  const Place place(task.tokens, task.width);
  if (!place.there) return;
  Eight y = place.of<T>(task.x);
  const Eight gate = place.of<T>(task.gate);
#pragma unroll
  for (int i = 0; i < kPack; ++i) y.value[i] *= gate.value[i] * sigmoid(gate.value[i]);
  write(place.at<T>(task.y), y);
}

template <class T>
__global__ void __launch_bounds__(kThreads) silu_product_backward(SiluProductBackward given) {
  const auto& task = given.past;
  const Place place(task.tokens, task.width);
  if (!place.there) return;
  Eight dx = place.of<T>(given.dy), dgate = place.of<T>(task.x);
  const Eight gate = place.of<T>(task.gate);
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const float g = gate.value[i], s = sigmoid(g);
    dgate.value[i] *= dx.value[i] * slope(g, s);
    dx.value[i] *= g * s;
  }
  write(place.at<T>(given.dx), dx);
  write(place.at<T>(given.dgate), dgate);
}

template <class T>
__global__ void __launch_bounds__(kThreads) gated_step(GatedStep task) {
  const Place place(task.tokens, task.width);
  if (!place.there) return;
  const Eight x = place.of<T>(task.x), update = place.of<T>(task.update),
              candidate = place.of<T>(task.candidate), added = place.of<T>(task.added);
  Eight y;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const float c = candidate.value[i] + added.value[i];
    y.value[i] = sigmoid(update.value[i]) * (c * sigmoid(c) - x.value[i]);
  }
  write(place.at<T>(task.y), y);
}

template <class T>
__global__ void __launch_bounds__(kThreads) gated_step_backward(GatedStepBackward given) {
  const auto& task = given.past;
  const Place place(task.tokens, task.width);
  if (!place.there) return;
  const Eight dy = place.of<T>(given.dy), x = place.of<T>(task.x),
              update = place.of<T>(task.update), candidate = place.of<T>(task.candidate),
              added = place.of<T>(task.added);
  Eight dx, dupdate, dcandidate;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const float c = candidate.value[i] + added.value[i], s = sigmoid(c),
                u = sigmoid(update.value[i]), given_to_step = dy.value[i] * u;
    dx.value[i] = -given_to_step;
    dupdate.value[i] = given_to_step * (1 - u) * (c * s - x.value[i]);
    dcandidate.value[i] = given_to_step * slope(c, s);
  }
  write(place.at<T>(given.dx), dx);
  write(place.at<T>(given.dupdate), dupdate);
  write(place.at<T>(given.dcandidate), dcandidate);
}

template <class Task>
void run(void (*bfloat16)(Task), void (*float16)(Task), const Task& task, Element type,
         int64_t tokens, int64_t width, void* stream) {
  const auto blocks = static_cast<unsigned>((tokens * (width / kPack) + kThreads - 1) / kThreads);
  launch(type == Element::bfloat16 ? bfloat16 : float16, blocks, kThreads, 0, stream, task);
}

}  // namespace

void silu_product_cuda(const SiluProduct& task, void* stream) noexcept {
  run(silu_product<__nv_bfloat16>, silu_product<__half>, task, task.type, task.tokens, task.width,
      stream);
}
void silu_product_backward_cuda(const SiluProductBackward& task, void* stream) noexcept {
  const auto& past = task.past;
  run(silu_product_backward<__nv_bfloat16>, silu_product_backward<__half>, task, past.type,
      past.tokens, past.width, stream);
}
void gated_step_cuda(const GatedStep& task, void* stream) noexcept {
  run(gated_step<__nv_bfloat16>, gated_step<__half>, task, task.type, task.tokens, task.width,
      stream);
}
void gated_step_backward_cuda(const GatedStepBackward& task, void* stream) noexcept {
  const auto& past = task.past;
  run(gated_step_backward<__nv_bfloat16>, gated_step_backward<__half>, task, past.type, past.tokens,
      past.width, stream);
}

}  // namespace longbow::kernels
