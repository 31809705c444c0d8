// A warp has up to 256 channels of one token, eight to a thread; the rows around it come through
// the cache, which neighbouring warps share. With g = dout,
//   dz_s = sum_j a_{s - j + left, j} g_{s - j + left},   da_tj = g_t . z_{t + j - left} by heads.
#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/token_taps.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kPack = 8, kColumns = 32 * kPack;

template <class T>
struct alignas(16) Pack {
  T item[kPack];
};
template <class T>
__device__ __forceinline__ void load(float (&to)[kPack], const T* from) {
  const auto pack = *reinterpret_cast<const Pack<T>*>(from);
#pragma unroll
  for (int i = 0; i < kPack; ++i) to[i] = static_cast<float>(pack.item[i]);
}
template <class T>
__device__ __forceinline__ void store(T* to, const float (&from)[kPack]) {
  Pack<T> pack;
#pragma unroll
  for (int i = 0; i < kPack; ++i) pack.item[i] = static_cast<T>(from[i]);
  *reinterpret_cast<Pack<T>*>(to) = pack;
}

// The token and the channels of a thread.
struct Place {
  int64_t batch, token, channel, head;
  bool inside;

  __device__ explicit Place(const TokenTaps& task) {
    const int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.x / 32;
    batch = row / task.tokens;
    token = row % task.tokens;
    channel = blockIdx.y * int64_t{kColumns} + threadIdx.x % 32 * kPack;
    inside = batch < task.batch && channel < task.channels;
    head = channel / (task.channels / task.heads);
  }
  __device__ int64_t dense(const TokenTaps& task, int64_t at) const {
    return (batch * task.tokens + at) * task.channels + channel;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) add_up(TokenTaps task) {
  const Place place(task);
  if (!place.inside) return;
  const T* z = static_cast<const T*>(task.z) + place.batch * task.z_batch + place.channel;
  const float* a =
      task.a + place.batch * task.a_batch + place.head * task.a_head + place.token * task.a_token;
  float sum[kPack] = {};
  for (int64_t j = 0; j < task.taps; ++j) {
    const int64_t from = place.token + j - task.left;
    if (from < 0 || from >= task.tokens) continue;
    float row[kPack];
    load(row, z + from * task.z_token);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum[i] += a[j] * row[i];
  }
  store(task.out + place.dense(task, place.token), sum);
}

template <class T>
__global__ void __launch_bounds__(kThreads) differentiate(TokenTapsBackward all) {
  const auto& task = all.past;
  const Place place(task);
  const T* z = static_cast<const T*>(task.z) + place.batch * task.z_batch + place.channel;
  const float* a = task.a + place.batch * task.a_batch + place.head * task.a_head;
  const int lanes = static_cast<int>(task.channels / task.heads) / kPack;  // of a head
  float g[kPack] = {}, sum[kPack] = {};
  if (place.inside) load(g, all.dout + place.dense(task, place.token));
  for (int64_t j = 0; j < task.taps; ++j) {
    const int64_t from = place.token + j - task.left, to = place.token - j + task.left;
    if (place.inside && to >= 0 && to < task.tokens) {
      float row[kPack];
      load(row, all.dout + place.dense(task, to));
      const float tap = a[to * task.a_token + j];
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum[i] += tap * row[i];
    }
    float slope = 0;
    if (place.inside && from >= 0 && from < task.tokens) {
      float row[kPack];
      load(row, z + from * task.z_token);
#pragma unroll
      for (int i = 0; i < kPack; ++i) slope += g[i] * row[i];
    }
    for (int far = lanes / 2; far > 0; far /= 2) slope += __shfl_xor_sync(0xffffffffu, slope, far);
    if (place.inside && threadIdx.x % lanes == 0)
      all.da[((place.batch * task.tokens + place.token) * task.heads + place.head) * task.taps +
             j] = slope;
  }
  if (place.inside) store(static_cast<T*>(all.dz) + place.dense(task, place.token), sum);
}

dim3 grid_of(const TokenTaps& task) {
  return dim3(static_cast<unsigned>((task.batch * task.tokens + kWarps - 1) / kWarps),
              static_cast<unsigned>((task.channels + kColumns - 1) / kColumns));
}

template <class F>
void with_type(Element type, const F& body) {
  if (type == Element::float32) return body.template operator()<float>();
  if (type == Element::bfloat16) return body.template operator()<__nv_bfloat16>();
  body.template operator()<__half>();
}

}  // namespace

void token_taps_cuda(const TokenTaps& task, void* stream) noexcept {
  with_type(task.type,
            [&]<class T>() { launch(add_up<T>, grid_of(task), kThreads, 0, stream, task); });
}

void token_taps_backward_cuda(const TokenTapsBackward& task, void* stream) noexcept {
  with_type(task.past.type, [&]<class T>() {
    launch(differentiate<T>, grid_of(task.past), kThreads, 0, stream, task);
  });
}

}  // namespace longbow::kernels
