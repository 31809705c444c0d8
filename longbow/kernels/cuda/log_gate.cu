#include "longbow/kernels/log_gate.h"

#include "longbow/kernels/cuda/feature_tiles.h"
#include "longbow/kernels/cuda/sigmoid.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256;

__device__ inline int64_t place() {
  return (blockIdx.x * int64_t{kThreads} + static_cast<int>(threadIdx.x)) * 8;
}

__global__ void __launch_bounds__(kThreads) forward(LogGate task) {
  const int64_t at = place();
  if (at >= task.count) return;
  const float by = 1 / task.divisor;
  float x[8];
  spread(*reinterpret_cast<const uint4*>(static_cast<const Number*>(task.logit) + at), x);
#pragma unroll
  for (float& number : x) number = (fminf(number, 0) - log1pf(__expf(-fabsf(number)))) * by;
  auto* to = reinterpret_cast<float4*>(task.out + at);
  to[0] = {x[0], x[1], x[2], x[3]};
  to[1] = {x[4], x[5], x[6], x[7]};
}

__global__ void __launch_bounds__(kThreads) backward(LogGateBackward task) {
  const int64_t at = place();
  if (at >= task.count) return;
  const float by = 1 / task.divisor;
  float x[8];
  spread(*reinterpret_cast<const uint4*>(static_cast<const Number*>(task.logit) + at), x);
  const auto* from = reinterpret_cast<const float4*>(task.dout + at);
  const float4 left = from[0], right = from[1];
  const float d[8] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
#pragma unroll
  for (int e = 0; e < 8; ++e) x[e] = d[e] * sigmoid(-x[e]) * by;
  *reinterpret_cast<uint4*>(static_cast<Number*>(task.dlogit) + at) = packed(x);
}

dim3 blocks_of(int64_t count) {
  const int64_t each = kThreads * 8;
  return {static_cast<unsigned>((count + each - 1) / each)};
}

}  // namespace

void log_gate_cuda(const LogGate& task, void* stream) noexcept {
  launch(forward, blocks_of(task.count), kThreads, 0, stream, task);
}

void log_gate_backward_cuda(const LogGateBackward& task, void* stream) noexcept {
  launch(backward, blocks_of(task.count), kThreads, 0, stream, task);
}

}  // namespace longbow::kernels
