// A thread block has a matrix, all of it in shared memory, of which each thread has 4 x 4 numbers
// of every product. Smaller matrices stand among zeros.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/iterated_inverse.h"

namespace longbow::kernels {
namespace {

constexpr int kOrder = kMostInverseOrder, kStride = kOrder + 4, kSize = kOrder * kStride;
constexpr int kThreads = 256, kLine = kOrder / 4;  // threads beside each other

struct Tile {
  float part[4][4] = {};

  static __device__ int row() { return static_cast<int>(threadIdx.x) / kLine * 4; }
  static __device__ int column() { return static_cast<int>(threadIdx.x) % kLine * 4; }
  // body(number, i, j) for the numbers of the thread at row i and column j.
  template <class F>
  __device__ __forceinline__ void each(const F& body) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) body(part[i][j], row() + i, column() + j);
  }
  // += factor a b, or a^T b.
  template <bool turned = false>
  __device__ __forceinline__ void add_product(const float* a, const float* b, float factor = 1) {
    Tile sum;
#pragma unroll 4
    for (int k = 0; k < kOrder; k += 4) {
      float left[4][4];  // [k][i]
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float4 four = *reinterpret_cast<const float4*>(
            turned ? a + (k + n) * kStride + row() : a + (row() + n) * kStride + k);
        const float found[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int m = 0; m < 4; ++m) (turned ? left[n][m] : left[m][n]) = found[m];
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float4 four = *reinterpret_cast<const float4*>(b + (k + n) * kStride + column());
        const float right[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) sum.part[i][j] += left[n][i] * right[j];
      }
    }
    each(
        [&](float& number, int i, int j) { number += factor * sum.part[i - row()][j - column()]; });
  }
  __device__ __forceinline__ void add(const float* x, float factor) {
    each([&](float& number, int i, int j) { number += factor * x[i * kStride + j]; });
  }
  __device__ __forceinline__ void add_identity(float factor, int order) {
    each([&](float& number, int i, int j) {
      if (i == j && i < order) number += factor;
    });
  }
  template <bool turned = false>
  __device__ __forceinline__ void put(float* to) {
    each([&](float& number, int i, int j) {
      to[turned ? j * kStride + i : i * kStride + j] = number;
    });
  }
  __device__ __forceinline__ void write(float* to, int order) {
    each([&](float& number, int i, int j) {
      if (i < order && j < order) to[i * order + j] = number;
    });
  }
};

template <bool turned = false>
__device__ void fetch(float* to, const float* from, int order) {
  for (auto n = static_cast<int>(threadIdx.x); n < kOrder * kOrder; n += kThreads) {
    const int i = n / kOrder, j = n % kOrder;
    to[turned ? j * kStride + i : i * kStride + j] =
        i < order && j < order ? from[i * order + j] : 0;
  }
}

// P = A Z, X = 15 I - P (7 I - P), Z <- Z (13 I - P X) / 4.
__global__ void __launch_bounds__(kThreads) forward(IteratedInverse<float> task) {
  auto* const memory = reinterpret_cast<float*>(dynamic_memory());
  float *const a = memory, *const z = a + kSize, *const p = z + kSize, *const x = p + kSize;
  const auto order = static_cast<int>(task.order);
  const int64_t at = int64_t{blockIdx.x} * order * order;
  fetch(a, task.a + at, order);
  fetch(z, task.states + at, order);
  __syncthreads();
  for (int64_t s = 0; s < task.steps; ++s) {
    Tile of_p, of_x, of_y, of_z;
    of_p.add_product(a, z);
    of_p.put(p);
    __syncthreads();
    of_x.add_product(p, p);
    of_x.add(p, -7);
    of_x.add_identity(15, order);
    of_x.put(x);
    __syncthreads();
    of_y.add_product(p, x, -0.25f);
    of_y.add_identity(13.0f / 4, order);
    __syncthreads();
    of_y.put(x);
    __syncthreads();
    of_z.add_product(z, x);
    __syncthreads();
    of_z.put(z);
    __syncthreads();
    of_z.write(s + 1 < task.steps ? task.states + (s + 1) * task.stride + at : task.out + at,
               order);
  }
}

// Of a step, from the gradient dZ of its result:
//   dY = -Z^T dZ / 4,   dX = P^T dY,   dP = dY X^T + dX P^T + P^T dX - 7 dX,
//   dA += dP Z^T,   dZ <- 13 / 4 dZ - (dZ X^T) P^T / 4 + A^T dP.
__global__ void __launch_bounds__(kThreads) backward(IteratedInverseBackward<float> all) {
  const auto& task = all.past;
  auto* const memory = reinterpret_cast<float*>(dynamic_memory());
  float *const dz = memory, *const p = dz + kSize, *const p_turned = p + kSize,
               *const x_turned = p_turned + kSize, *const other = x_turned + kSize;
  const auto order = static_cast<int>(task.order);
  const int64_t at = int64_t{blockIdx.x} * order * order;
  fetch(dz, all.dout + at, order);
  Tile da;
  for (int64_t s = task.steps - 1; s >= 0; --s) {
    const float* const state = task.states + s * task.stride + at;
    __syncthreads();
    fetch(other, task.a + at, order);
    fetch(x_turned, state, order);
    __syncthreads();
    Tile of_p, of_x, dy, dx, dp, e, next;
    of_p.add_product(other, x_turned);
    of_p.put(p);
    of_p.put<true>(p_turned);
    __syncthreads();
    fetch(other, state, order);
    of_x.add_product(p, p);
    of_x.add(p, -7);
    of_x.add_identity(15, order);
    of_x.put<true>(x_turned);
    __syncthreads();
    dy.add_product<true>(other, dz, -0.25f);
    dy.put(p);
    __syncthreads();
    dx.add_product(p_turned, p);
    dx.put(other);
    __syncthreads();
    dp.add_product(p, x_turned);
    dp.add_product(other, p_turned);
    dp.add_product(p_turned, other);
    dp.add(other, -7);
    e.add_product(dz, x_turned);
    __syncthreads();
    dp.put(x_turned);
    e.put(p);
    fetch(other, task.a + at, order);
    __syncthreads();
    next.add(dz, 13.0f / 4);
    next.add_product(p, p_turned, -0.25f);
    next.add_product<true>(other, x_turned);
    __syncthreads();
    next.put(dz);
    fetch<true>(other, state, order);
    __syncthreads();
    da.add_product(x_turned, other);
  }
  da.write(all.da + at, order);
  Tile last;
  last.add(dz, 1);
  last.write(all.dz + at, order);
}

}  // namespace

void iterated_inverse_cuda(const IteratedInverse<float>& task, int64_t matrices,
                           void* stream) noexcept {
  launch(forward, static_cast<unsigned>(matrices), kThreads, sizeof(float) * 4 * kSize, stream,
         task);
}
void iterated_inverse_backward_cuda(const IteratedInverseBackward<float>& task, int64_t matrices,
                                    void* stream) noexcept {
  launch(backward, static_cast<unsigned>(matrices), kThreads, sizeof(float) * 5 * kSize, stream,
         task);
}

}  // namespace longbow::kernels
