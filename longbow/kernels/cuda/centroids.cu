// A row belongs to a group of threads of a warp, each of which has 8 of its numbers; a block has
// rows of one head, whose centroids stand in shared memory.
#include <cuda_runtime.h>

#include "longbow/kernels/centroids.h"
#include "longbow/kernels/cuda/eight.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256, kRows = 8;  // rows of a group

struct Place {
  int64_t both, batch, head, token;
  int lanes, column;

  __device__ explicit Place(const Centroids& task)
      : both(blockIdx.y),
        batch(both / task.heads),
        head(both % task.heads),
        lanes(static_cast<int>(task.width) / 8),
        column(static_cast<int>(threadIdx.x) % lanes * 8) {
    token = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / lanes * kRows;
  }
  template <class T, class Rows>
  __device__ T* in(const Rows& x, int64_t at) const {
    return static_cast<T*>(x.data) + batch * x.batch + head * x.head + at * x.token + column;
  }
  __device__ float sum(float value) const {  // over the threads of a row
    for (int far = lanes / 2; far > 0; far /= 2) value += __shfl_xor_sync(0xffffffffu, value, far);
    return value;
  }
};

__device__ float* centroids_of(const Centroids& task, const Place& place) {
  auto* const held = reinterpret_cast<float*>(dynamic_memory());
  const auto count = static_cast<int>(task.clusters * task.width);
  const float* const from = task.centroids + place.head * count;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) held[i] = from[i];
  __syncthreads();
  return held;
}
__device__ Eight eight_of(const float* from) {
  const auto* at = reinterpret_cast<const float4*>(from);
  const float4 a = at[0], b = at[1];
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

template <class T>
__global__ void __launch_bounds__(kThreads) cosines(CentroidCosines all) {
  const auto& task = all.past;
  const Place place(task);
  const float* const centroids = centroids_of(task, place);
  for (int64_t token = place.token; token < place.token + kRows; ++token) {
    const bool there = token < task.tokens;
    Eight x = {};
    if (there) x = read(place.in<const T>(task.x, token));
    const float norm = sqrtf(place.sum(dot(x, x)));
    const float inverse = 1 / fmaxf(norm, static_cast<float>(task.least));
    const int64_t row = place.both * task.tokens + token;
    float best = -INFINITY;
    int nearest = 0;
    for (int k = 0; k < task.clusters; ++k) {
      const float cosine =
          place.sum(dot(x, eight_of(centroids + k * task.width + place.column))) * inverse;
      if (cosine > best) {
        best = cosine;
        nearest = k;
      }
      // Threads of a row write in turn, so that neighbours write beside each other.
      if (there && place.column / 8 == k % place.lanes)
        all.cosines[row * task.clusters + k] = cosine;
    }
    if (!there || place.column > 0) continue;
    all.inverse[row] = inverse;
    all.nearest[row] = nearest;
  }
}

// With u = x / |x|: dx = (sum_k g_k mu_k - (sum_k g_k cos_k) u) / |x|, and for rows that are
// shorter than the least norm the first term alone.
template <class T>
__global__ void __launch_bounds__(kThreads) cosines_backward(CentroidCosinesBackward all) {
  const auto& task = all.past;
  const Place place(task);
  const float* const centroids = centroids_of(task, place);
  for (int64_t token = place.token; token < place.token + kRows; ++token) {
    if (token >= task.tokens) return;
    const int64_t row = place.both * task.tokens + token;
    const float inverse = all.inverse[row];
    const bool whole = inverse < 1 / static_cast<float>(task.least);
    Eight sum = {};
    float along = 0;
    for (int k = 0; k < task.clusters; ++k) {
      const float g = all.dcosines[row * task.clusters + k];
      along += g * all.cosines[row * task.clusters + k];
      add(sum, g, eight_of(centroids + k * task.width + place.column));
    }
    if (whole) add(sum, -along * inverse, read(place.in<const T>(task.x, token)));
    Eight dx = {};
    add(dx, inverse, sum);
    write(place.in<T>(all.dx, token), dx);
  }
}

// A thread has one channel of every few tokens, and adds them up by cluster in their order.
template <class T>
__global__ void __launch_bounds__(kThreads) sums(CentroidSums all) {
  const auto& task = all.past;
  auto* const held = reinterpret_cast<float*>(dynamic_memory());  // [groups, K, width]
  const auto width = static_cast<int>(task.width), groups = kThreads / width,
             group = static_cast<int>(threadIdx.x) / width,
             channel = static_cast<int>(threadIdx.x) % width,
             count = static_cast<int>(task.clusters) * width;
  for (int i = static_cast<int>(threadIdx.x); i < groups * count; i += kThreads) held[i] = 0;
  __syncthreads();
  const int64_t both = blockIdx.y, batch = both / task.heads, head = both % task.heads;
  const T* const x = static_cast<const T*>(task.x.data) + batch * task.x.batch + head * task.x.head;
  const int64_t end = min(task.tokens, (blockIdx.x + 1) * Centroids::kPiece);
  for (int64_t token = blockIdx.x * Centroids::kPiece + group; token < end; token += groups) {
    const int64_t row = both * task.tokens + token;
    const auto k = static_cast<int>(all.nearest[row]);
    if (k < 0) continue;
    held[group * count + k * width + channel] +=
        static_cast<float>(x[token * task.x.token + channel]) * all.inverse[row];
  }
  __syncthreads();
  float* const to = all.sums + ((batch * gridDim.x + blockIdx.x) * task.heads + head) * count;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    float sum = 0;
    for (int g = 0; g < groups; ++g) sum += held[g * count + i];
    to[i] = sum;
  }
}

template <class Kernel, class Task>
void run(Kernel bfloat16, Kernel float16, const Task& task, int64_t tokens, int64_t floats,
         void* stream) {
  const auto& past = task.past;
  const dim3 grid(static_cast<unsigned>((past.tokens + tokens - 1) / tokens),
                  static_cast<unsigned>(past.batch * past.heads));
  launch(past.type == Element::bfloat16 ? bfloat16 : float16, grid, kThreads,
         sizeof(float) * static_cast<size_t>(floats), stream, task);
}
int64_t tokens_at_once(const Centroids& task) {
  return kThreads / (task.width / 8) * kRows;
}

}  // namespace

void centroid_cosines_cuda(const CentroidCosines& task, void* stream) noexcept {
  run(cosines<__nv_bfloat16>, cosines<__half>, task, tokens_at_once(task.past),
      task.past.clusters * task.past.width, stream);
}
void centroid_cosines_backward_cuda(const CentroidCosinesBackward& task, void* stream) noexcept {
  run(cosines_backward<__nv_bfloat16>, cosines_backward<__half>, task, tokens_at_once(task.past),
      task.past.clusters * task.past.width, stream);
}
void centroid_sums_cuda(const CentroidSums& task, void* stream) noexcept {
  run(sums<__nv_bfloat16>, sums<__half>, task, Centroids::kPiece, task.past.clusters * kThreads,
      stream);
}

}  // namespace longbow::kernels
