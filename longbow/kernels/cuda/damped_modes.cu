#include "longbow/kernels/damped_modes.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/device.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256;

__device__ float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}
template <class T>
__device__ float at(const void* data, int64_t i) {
  return static_cast<float>(static_cast<const T*>(data)[i]);
}

template <class T>
__global__ void __launch_bounds__(kThreads) forward(DampedModes task) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= task.count) return;
  const float p = sigmoid(at<T>(task.delta, i)), q = sigmoid(at<T>(task.alpha, i));
  const float rate = log1pf(-p * q);
  task.rate[i] = rate < task.fastest ? task.fastest : rate;  // NaN stays NaN
  task.weight[i] = p * at<T>(task.beta, i) * at<T>(task.eta, i) * task.factor;
}

template <class T>
__global__ void __launch_bounds__(kThreads) backward(DampedModesBackward all) {
  const auto& task = all.past;
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= task.all) return;
  const auto write = [&](void* to, float x) { static_cast<T*>(to)[i] = static_cast<T>(x); };
  float ddelta = 0, dalpha = 0, dbeta = 0, deta = 0;
  if (i < task.count) {
    const float p = sigmoid(at<T>(task.delta, i)), q = sigmoid(at<T>(task.alpha, i)),
                beta = at<T>(task.beta, i), eta = at<T>(task.eta, i),
                dweight = all.dweight[i] * task.factor;
    const float kept = 1 - p * q;  // what lasts from token to token
    const float slope = log1pf(-p * q) < task.fastest ? 0 : -all.drate[i] / kept;
    ddelta = (slope * q + dweight * beta * eta) * p * (1 - p);
    dalpha = slope * p * q * (1 - q);
    dbeta = dweight * p * eta;
    deta = dweight * p * beta;
  }
  write(all.ddelta, ddelta);
  write(all.dalpha, dalpha);
  write(all.dbeta, dbeta);
  write(all.deta, deta);
}

template <class Task>
void run(void (*float32)(Task), void (*bfloat16)(Task), void (*float16)(Task), const Task& task,
         Element type, int64_t count, void* stream) {
  const auto kernel = type == Element::float32    ? float32
                      : type == Element::bfloat16 ? bfloat16
                                                  : float16;
  launch(kernel, static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0, stream,
         task);
}

}  // namespace

void damped_modes_cuda(const DampedModes& task, void* stream) noexcept {
  run(forward<float>, forward<__nv_bfloat16>, forward<__half>, task, task.type, task.count, stream);
}
void damped_modes_backward_cuda(const DampedModesBackward& task, void* stream) noexcept {
  run(backward<float>, backward<__nv_bfloat16>, backward<__half>, task, task.past.type,
      task.past.all, stream);
}

}  // namespace longbow::kernels
