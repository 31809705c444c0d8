// A block has eight tokens of a head, and a thread rows of omega, each read once for all of them.
// Exponents wait in the place of the features until the largest is known.
#include "longbow/kernels/exponential_features.h"

#include "longbow/kernels/cuda/device.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 288, kWarps = kThreads / 32, kTokens = 8;
constexpr float kNothing = -1e30f;

template <class T>
__global__ void __launch_bounds__(kThreads) features(ExponentialFeatures task) {
  unsigned char* const shared = dynamic_memory();
  const int thread = static_cast<int>(threadIdx.x), width = static_cast<int>(task.width),
            rows = static_cast<int>(task.rows), count = task.mirrored ? 2 * rows : rows;
  auto* const y = reinterpret_cast<float*>(shared);  // [width, 8]
  float* const by_warp = y + kTokens * width;        // [warps, 8]
  const int64_t h = blockIdx.y, first = blockIdx.x * int64_t{kTokens},
                all = task.batch * task.tokens;
  const auto row_of = [&](int i) {  // among those of phi, or -1
    const int64_t token = first + i, b = token / task.tokens;
    return token < all ? (b * task.heads + h) * task.tokens + token % task.tokens : -1;
  };
  for (int i = thread; i < kTokens * width; i += kThreads) {
    const int64_t token = first + i / width;
    y[i % width * kTokens + i / width] =
        token < all
            ? task.scale * static_cast<float>(static_cast<const T*>(
                               task.x)[token / task.tokens * task.x_batch + h * task.x_head +
                                       token % task.tokens * task.x_token + i % width])
            : 0;
  }
  __syncthreads();

  const float* const omega = task.omega + h * task.omega_head;
  float most[kTokens];
  for (float& number : most) number = -INFINITY;
  for (int r = thread; r < rows; r += kThreads) {
    float u[kTokens] = {};
    const auto add = [&](float by, int d) {
#pragma unroll
      for (int i = 0; i < kTokens; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(y + d * kTokens + i);
        u[i] += by * four.x;
        u[i + 1] += by * four.y;
        u[i + 2] += by * four.z;
        u[i + 3] += by * four.w;
      }
    };
    const float* const row = omega + static_cast<int64_t>(r) * width;
    int d = 0;
    if (width % 4 == 0)
#pragma unroll 4
      for (; d < width; d += 4) {
        const float4 four = *reinterpret_cast<const float4*>(row + d);
        add(four.x, d);
        add(four.y, d + 1);
        add(four.z, d + 2);
        add(four.w, d + 3);
      }
    for (; d < width; ++d) add(row[d], d);
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
      most[i] = fmaxf(most[i], task.mirrored ? fabsf(u[i]) : u[i]);
      if (row_of(i) >= 0) task.phi[row_of(i) * count + r] = u[i];
    }
  }
  for (float& number : most)
    for (int other = 1; other < 32; other *= 2)
      number = fmaxf(number, __shfl_xor_sync(0xffffffffu, number, other));
  if (thread % 32 == 0)
#pragma unroll
    for (int i = 0; i < kTokens; ++i) by_warp[thread / 32 * kTokens + i] = most[i];
  __syncthreads();
  // The tokens of this thread's warp: one.
  for (int i = thread / 32; i < kTokens; i += kWarps) {
    float peak = -INFINITY, square = 0;
    for (int warp = 0; warp < kWarps; ++warp) peak = fmaxf(peak, by_warp[warp * kTokens + i]);
    for (int d = thread % 32; d < width; d += 32) square += y[d * kTokens + i] * y[d * kTokens + i];
    for (int other = 1; other < 32; other *= 2)
      square += __shfl_xor_sync(0xffffffffu, square, other);
    const int64_t row = row_of(i);
    const bool kept = row >= 0 && (!task.keep || task.keep[first + i]);
    if (row >= 0 && thread % 32 == 0)
      task.peaks[row] = kept ? fmaxf(peak - square / 2, kNothing) : kNothing;
    // Other warps have written the exponents.
    float* const phi = task.phi + row * count;
    for (int r = thread % 32; row >= 0 && r < rows; r += 32) {
      const float u = phi[r];
      phi[r] = kept ? expf(u - peak) : 0;
      if (task.mirrored) phi[r + rows] = kept ? expf(-u - peak) : 0;
    }
  }
}

}  // namespace

void exponential_features_cuda(const ExponentialFeatures& task, void* stream) noexcept {
  const int64_t tokens = task.batch * task.tokens;
  launch(task.half ? features<__nv_bfloat16> : features<float>,
         dim3(static_cast<unsigned>((tokens + kTokens - 1) / kTokens),
              static_cast<unsigned>(task.heads)),
         kThreads, sizeof(float) * kTokens * static_cast<size_t>(task.width + kWarps), stream,
         task);
}

}  // namespace longbow::kernels
