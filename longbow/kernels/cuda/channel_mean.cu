// A thread holds eight neighbouring channels and meets every eighth token of its part: what it adds
// up stays in registers. Parts of the tokens are joined in a fixed order.
#include "longbow/kernels/channel_mean.h"
#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels {
namespace {

constexpr int kPack = 8, kLanes = 32, kRows = 8;  // a block: 32 x 8 threads
constexpr int kColumns = kPack * kLanes;          // channels of a block
constexpr int kTokensPerThread = 8;               // in the backward pass
constexpr float kLowest = -3.4e38f;

template <class T>
struct alignas(16) Pack {
  T item[kPack];
};

template <class T>
__device__ void load(float (&to)[kPack], const T* from) {
  const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(from);
#pragma unroll
  for (int j = 0; j < kPack; ++j) to[j] = static_cast<float>(pack.item[j]);
}
template <class T>
__device__ void store(T* to, const float (&from)[kPack]) {
  Pack<T> pack;
#pragma unroll
  for (int j = 0; j < kPack; ++j) pack.item[j] = static_cast<T>(from[j]);
  *reinterpret_cast<Pack<T>*>(to) = pack;
}
template <class T>
__device__ void load_keys(float (&to)[kPack], const T* row, int64_t channel, int64_t group) {
  if (group == 1) return load(to, row + channel);
  const auto one = static_cast<float>(row[channel / group]);
#pragma unroll
  for (int j = 0; j < kPack; ++j) to[j] = one;
}

__device__ float power(float x) {
  return exp2f(kLog2E * x);
}

template <class T>
__global__ void __launch_bounds__(kLanes* kRows) add_up(ChannelMean task) {
  __shared__ float held[3][kRows][kColumns];
  const int64_t channel = blockIdx.x * int64_t{kColumns} + threadIdx.x * kPack, b = blockIdx.z;
  const int64_t share = (task.tokens + task.splits - 1) / task.splits;
  const int64_t first = blockIdx.y * share, end = min(first + share, task.tokens);
  float max[kPack], sum[kPack], value[kPack];
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    max[j] = kLowest;
    sum[j] = value[j] = 0;
  }
  if (channel < task.channels) {
    const auto* k = static_cast<const T*>(task.k) + b * task.k_batch;
    const auto* v = static_cast<const T*>(task.v) + b * task.v_batch;
    for (int64_t n = first + threadIdx.y; n < end; n += kRows) {
      if (task.keep && !task.keep[b * task.tokens + n]) continue;
      float key[kPack], row[kPack];
      load_keys(key, k + n * task.k_row, channel, task.group);
      load(row, v + n * task.v_row + channel);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const float top = fmaxf(max[j], key[j]);
        const float old = power(max[j] - top), weight = power(key[j] - top);
        sum[j] = sum[j] * old + weight;
        value[j] = value[j] * old + weight * row[j];
        max[j] = top;
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    const int column = static_cast<int>(threadIdx.x) * kPack + j;
    held[0][threadIdx.y][column] = max[j];
    held[1][threadIdx.y][column] = sum[j];
    held[2][threadIdx.y][column] = value[j];
  }
  __syncthreads();
  const int column = static_cast<int>(threadIdx.y * kLanes + threadIdx.x);
  const int64_t c = blockIdx.x * int64_t{kColumns} + column;
  if (c >= task.channels) return;
  float top = kLowest, weights = 0, whole = 0;
  for (int r = 0; r < kRows; ++r) top = fmaxf(top, held[0][r][column]);
  for (int r = 0; r < kRows; ++r) {
    const float factor = power(held[0][r][column] - top);
    weights += factor * held[1][r][column];
    whole += factor * held[2][r][column];
  }
  float* part = task.parts + (b * task.splits + blockIdx.y) * 3 * task.channels + c;
  part[0] = top;
  part[task.channels] = weights;
  part[2 * task.channels] = whole;
}

__global__ void join(ChannelMean task) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= task.batch * task.channels) return;
  const int64_t b = i / task.channels, c = i % task.channels, step = 3 * task.channels;
  const float* part = task.parts + b * task.splits * step + c;
  float top = kLowest, weights = 0, whole = 0;
  for (int64_t s = 0; s < task.splits; ++s) top = fmaxf(top, part[s * step]);
  for (int64_t s = 0; s < task.splits; ++s) {
    const float factor = power(part[s * step] - top);
    weights += factor * part[s * step + task.channels];
    whole += factor * part[s * step + 2 * task.channels];
  }
  task.mean[i] = weights > 0 ? whole / weights : 0;
  task.log_sum[i] = weights > 0 ? top + logf(weights) : INFINITY;
}

template <class T>
__global__ void __launch_bounds__(kLanes* kRows) backward(ChannelMeanBackward task) {
  const int64_t channel = blockIdx.x * int64_t{kColumns} + threadIdx.x * kPack, b = blockIdx.z;
  const bool inside = channel < task.channels;
  float mean[kPack] = {}, log_sum[kPack] = {}, gradient[kPack] = {};
  if (inside) {
    const int64_t at = b * task.channels + channel;
    load(mean, task.mean + at);
    load(log_sum, task.log_sum + at);
    load(gradient, task.gradient + at);
  }
  const auto* k = static_cast<const T*>(task.k) + b * task.k_batch;
  const auto* v = static_cast<const T*>(task.v) + b * task.v_batch;
  const int64_t keys = task.channels / task.group;
  for (int i = 0; i < kTokensPerThread; ++i) {
    const int64_t n = (blockIdx.y * int64_t{kTokensPerThread} + i) * kRows + threadIdx.y;
    if (n >= task.tokens) return;  // the same for all threads of a warp
    const bool counts = inside && (!task.keep || task.keep[b * task.tokens + n]);
    float dk[kPack] = {}, dv[kPack] = {};
    if (counts) {
      float key[kPack], row[kPack];
      load_keys(key, k + n * task.k_row, channel, task.group);
      load(row, v + n * task.v_row + channel);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        dv[j] = power(key[j] - log_sum[j]) * gradient[j];
        dk[j] = dv[j] * (row[j] - mean[j]);
      }
    }
    const int64_t token = b * task.tokens + n;
    if (inside) store(static_cast<T*>(task.dv) + token * task.channels + channel, dv);
    if (task.group == 1) {
      if (inside) store(static_cast<T*>(task.dk) + token * task.channels + channel, dk);
      continue;
    }
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kPack; ++j) sum += dk[j];
    const int lanes = static_cast<int>(task.group / kPack);
    for (int offset = lanes / 2; offset > 0; offset /= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (inside && threadIdx.x % lanes == 0)
      static_cast<T*>(task.dk)[token * keys + channel / task.group] = static_cast<T>(sum);
  }
}

unsigned columns_of(int64_t channels) {
  return static_cast<unsigned>((channels + kColumns - 1) / kColumns);
}

template <class F>
void with_type(Element type, const F& body) {
  if (type == Element::float32) return body(float{});
  if (type == Element::bfloat16) return body(__nv_bfloat16{});
  body(__half{});
}

}  // namespace

bool channel_mean_fits(int64_t channels, int64_t group) noexcept {
  const bool power_of_two = (group & (group - 1)) == 0;
  return channels > 0 && channels % kPack == 0 && channels % group == 0 &&
         (group == 1 || (power_of_two && group >= kPack && group <= kColumns));
}

int64_t channel_mean_splits(int64_t batch, int64_t tokens, int64_t channels) noexcept {
  constexpr int64_t kBlocks = 528, kLeast = 64;  // four blocks for each multiprocessor
  const int64_t blocks = batch * columns_of(channels);
  const int64_t wanted = (kBlocks + blocks - 1) / blocks, most = (tokens + kLeast - 1) / kLeast;
  const int64_t splits = wanted < most ? wanted : most;
  return splits > 0 ? splits : 1;
}

void channel_mean_cuda(const ChannelMean& task, void* stream) noexcept {
  const dim3 grid(columns_of(task.channels), static_cast<unsigned>(task.splits),
                  static_cast<unsigned>(task.batch));
  with_type(task.type,
            [&]<class T>(T) { launch(add_up<T>, grid, dim3(kLanes, kRows), 0, stream, task); });
  constexpr int64_t kThreads = 256;
  const int64_t blocks = (task.batch * task.channels + kThreads - 1) / kThreads;
  launch(join, static_cast<unsigned>(blocks), kThreads, 0, stream, task);
}

void channel_mean_backward_cuda(const ChannelMeanBackward& task, void* stream) noexcept {
  constexpr int64_t kTokens = kRows * kTokensPerThread;
  const dim3 grid(columns_of(task.channels),
                  static_cast<unsigned>((task.tokens + kTokens - 1) / kTokens),
                  static_cast<unsigned>(task.batch));
  with_type(task.type,
            [&]<class T>(T) { launch(backward<T>, grid, dim3(kLanes, kRows), 0, stream, task); });
}

}  // namespace longbow::kernels
