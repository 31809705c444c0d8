// A row belongs to a group of 1 to 32 threads of a warp, each of which holds the same columns of
// every row that it meets: the sums over rows stay in its registers to the end.
#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/rows.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

template <class T>
constexpr int kPack = 16 / sizeof(T);

// How a row is dealt out: `lanes` threads, each `packs` times 16 bytes.
struct Deal {
  int lanes, packs;
};
__host__ Deal deal_of(Element type, int64_t width) {
  const int64_t pack = type == Element::float32 ? 4 : 8;
  if (width <= 0 || width % pack != 0) return {0, 0};
  const int64_t packs = width / pack;
  int64_t lanes = 1;
  while (lanes < 32 && packs % (2 * lanes) == 0) lanes *= 2;
  return {static_cast<int>(lanes), static_cast<int>(packs / lanes)};
}

template <class T>
struct Pack {
  alignas(16) T item[kPack<T>];
};

// Columns of one thread: pack i stands at column (i lanes + lane) kPack.
template <class T, int K>
struct Row {
  float value[K][kPack<T>];

  __device__ void load(const void* row, const Deal& deal, int lane) {
    const auto* from = static_cast<const Pack<T>*>(row);
#pragma unroll
    for (int i = 0; i < K; ++i) {
      if (i >= deal.packs) break;
      const Pack<T> pack = from[i * deal.lanes + lane];
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) value[i][j] = static_cast<float>(pack.item[j]);
    }
  }
  __device__ void store(void* row, const Deal& deal, int lane) const {
    auto* to = static_cast<Pack<T>*>(row);
#pragma unroll
    for (int i = 0; i < K; ++i) {
      if (i >= deal.packs) break;
      Pack<T> pack;
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) pack.item[j] = static_cast<T>(value[i][j]);
      to[i * deal.lanes + lane] = pack;
    }
  }
  template <class F>
  __device__ void each(const Deal& deal, const F& body) const {
#pragma unroll
    for (int i = 0; i < K; ++i) {
      if (i >= deal.packs) break;
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) body(i, j);
    }
  }
};

__device__ float group_sum(float value, int lanes) {
  const unsigned lane = threadIdx.x % 32, first = lane / lanes * lanes;
  const unsigned group = lanes == 32 ? 0xffffffffu : ((1u << lanes) - 1) << first;
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(group, value, offset);
  return value;
}

// The sums of a block's threads by column: over the groups of a warp, then warp after warp, so that
// they are the same every time.
template <class T, int K>
__device__ void add_up(const Row<T, K>& sums, const Deal& deal, int64_t width, float* out) {
  auto* const by_column = reinterpret_cast<float*>(dynamic_memory());
  const int lane = threadIdx.x % deal.lanes, warp = threadIdx.x / 32;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) by_column[i] = 0;
  for (int turn = 0; turn < kWarps; ++turn) {
    __syncthreads();
    if (turn != warp) continue;
    sums.each(deal, [&](int i, int j) {
      float sum = sums.value[i][j];
      for (int offset = deal.lanes; offset < 32; offset *= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
      if (threadIdx.x % 32 < deal.lanes) by_column[(i * deal.lanes + lane) * kPack<T> + j] += sum;
    });
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) out[i] = by_column[i];
  __syncthreads();
}

template <class T, int K>
__global__ void __launch_bounds__(kThreads) forward(LayerNorm task, Deal deal) {
  const int64_t row = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / deal.lanes;
  if (row >= task.rows) return;
  const int lane = threadIdx.x % deal.lanes;
  const auto width = static_cast<float>(task.width);
  Row<T, K> x, weight, bias;
  x.load(static_cast<const T*>(task.x) + row * task.stride, deal, lane);
  weight.load(task.weight, deal, lane);
  bias.load(task.bias, deal, lane);
  float sum = 0, squares = 0;
  x.each(deal, [&](int i, int j) { sum += x.value[i][j]; });
  const float mean = group_sum(sum, deal.lanes) / width;
  x.each(deal, [&](int i, int j) {
    x.value[i][j] -= mean;
    squares += x.value[i][j] * x.value[i][j];
  });
  const float rstd =
      rsqrtf(group_sum(squares, deal.lanes) / width + static_cast<float>(task.epsilon));
  x.each(deal, [&](int i, int j) {
    x.value[i][j] = x.value[i][j] * rstd * weight.value[i][j] + bias.value[i][j];
  });
  x.store(static_cast<T*>(task.y) + row * task.width, deal, lane);
  if (lane > 0) return;
  task.mean[row] = mean;
  task.rstd[row] = rstd;
}

template <class T, int K>
__global__ void __launch_bounds__(kThreads) backward(LayerNormBackward task, Deal deal) {
  const int lane = threadIdx.x % deal.lanes;
  const int64_t groups = gridDim.x * int64_t{kThreads} / deal.lanes;
  const auto width = static_cast<float>(task.width);
  Row<T, K> weight, dweight, dbias;
  weight.load(task.weight, deal, lane);
  dweight.each(deal, [&](int i, int j) { dweight.value[i][j] = dbias.value[i][j] = 0; });
  for (int64_t row = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / deal.lanes; row < task.rows;
       row += groups) {
    Row<T, K> x, dy;
    x.load(static_cast<const T*>(task.x) + row * task.stride, deal, lane);
    dy.load(static_cast<const T*>(task.dy) + row * task.dy_stride, deal, lane);
    const float mean = task.mean[row], rstd = task.rstd[row];
    float sum = 0, product = 0;  // of g = dy weight, and of g with the normalised x
    x.each(deal, [&](int i, int j) {
      const float normed = (x.value[i][j] - mean) * rstd;
      dweight.value[i][j] += dy.value[i][j] * normed;
      dbias.value[i][j] += dy.value[i][j];
      dy.value[i][j] *= weight.value[i][j];
      sum += dy.value[i][j];
      product += dy.value[i][j] * normed;
      x.value[i][j] = normed;
    });
    sum = group_sum(sum, deal.lanes) / width;
    product = group_sum(product, deal.lanes) / width;
    x.each(deal, [&](int i, int j) {
      x.value[i][j] = rstd * (dy.value[i][j] - sum - x.value[i][j] * product);
    });
    x.store(static_cast<T*>(task.dx) + row * task.width, deal, lane);
  }
  float* out = task.sums + blockIdx.x * 2 * task.width;
  add_up(dweight, deal, task.width, out);
  add_up(dbias, deal, task.width, out + task.width);
}

template <class T, int K>
__global__ void __launch_bounds__(kThreads) row_sum(RowSum task, Deal deal) {
  const int lane = threadIdx.x % deal.lanes;
  const int64_t groups = gridDim.x * int64_t{kThreads} / deal.lanes;
  Row<T, K> sum;
  sum.each(deal, [&](int i, int j) { sum.value[i][j] = 0; });
  for (int64_t row = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / deal.lanes; row < task.rows;
       row += groups) {
    Row<T, K> x;
    x.load(static_cast<const T*>(task.x) + row * task.stride, deal, lane);
    sum.each(deal, [&](int i, int j) { sum.value[i][j] += x.value[i][j]; });
  }
  add_up(sum, deal, task.width, task.sums + blockIdx.x * task.width);
}

size_t shared_bytes(int64_t width) {
  return static_cast<size_t>(width) * sizeof(float);
}

// Calls body with the type and the number of packs, rounded up to a power of two, as constants.
template <class T, class F>
void with_packs(int packs, const F& body) {
  if (packs == 1) return body.template operator()<T, 1>();
  if (packs == 2) return body.template operator()<T, 2>();
  if constexpr (sizeof(T) == 4)
    if (packs > 4) return body.template operator()<T, 8>();
  body.template operator()<T, 4>();
}
template <class F>
void with_types(Element type, int packs, const F& body) {
  if (type == Element::float32) return with_packs<float>(packs, body);
  if (type == Element::bfloat16) return with_packs<__nv_bfloat16>(packs, body);
  with_packs<__half>(packs, body);
}

}  // namespace

bool rows_fit(Element type, int64_t width) noexcept {
  const auto deal = deal_of(type, width);
  return type != Element::float64 && deal.lanes > 0 &&
         deal.packs <= (type == Element::float32 ? 8 : 4);
}

int64_t row_parts(Element type, int64_t rows, int64_t width) noexcept {
  constexpr int64_t kMost = 264;  // two blocks for each multiprocessor of a large GPU
  const int64_t threads = rows * deal_of(type, width).lanes;
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  return blocks < kMost ? blocks : kMost;
}

void layer_norm_cuda(const LayerNorm& task, void* stream) noexcept {
  const auto deal = deal_of(task.type, task.width);
  const int64_t blocks = (task.rows * deal.lanes + kThreads - 1) / kThreads;
  with_types(task.type, deal.packs, [&]<class T, int K>() {
    launch(forward<T, K>, static_cast<unsigned>(blocks), kThreads, 0, stream, task, deal);
  });
}

void layer_norm_backward_cuda(const LayerNormBackward& task, void* stream) noexcept {
  const auto deal = deal_of(task.type, task.width);
  with_types(task.type, deal.packs, [&]<class T, int K>() {
    launch(backward<T, K>, static_cast<unsigned>(task.parts), kThreads, shared_bytes(task.width),
           stream, task, deal);
  });
}

void row_sum_cuda(const RowSum& task, void* stream) noexcept {
  const auto deal = deal_of(task.type, task.width);
  with_types(task.type, deal.packs, [&]<class T, int K>() {
    launch(row_sum<T, K>, static_cast<unsigned>(task.parts), kThreads, shared_bytes(task.width),
           stream, task, deal);
  });
}

}  // namespace longbow::kernels
