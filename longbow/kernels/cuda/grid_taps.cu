// A thread block walks down the rows of an image, or of what a sequence is cut into, for 64
// channels. Rows come into shared memory a few ahead of their use. A thread has two channels of P
// neighbouring pixels, the taps in registers, and the sums of the R rows that see the row it reads
// in a ring: one number that it reads serves up to P R products. The gradient of the taps walks the
// same way, with a ring of rows of dy:
//   da_ij = sum_rc dy_rc z_{r + i - above, c + j - left},   db = sum_rc dy_rc.
// A thread adds it up over its pixels, a thread block over its warps, in one order.
#include <algorithm>

#include "longbow/kernels/cuda/mma.h"
#include "longbow/kernels/grid_taps.h"

namespace longbow::kernels {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps, kChannels = 64, kStages = 4;
constexpr int kTableLine = kChannels + 1;  // taps of one channel lie in different banks

// Two numbers of a type as they lie in memory.
template <class T>
using Word = std::conditional_t<sizeof(T) == 4, float2, uint32_t>;

template <class T>
__device__ __forceinline__ float2 opened(const T* from) {
  const auto word = *reinterpret_cast<const Word<T>*>(from);
  if constexpr (sizeof(T) == 4)
    return word;
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)  // one instruction each
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  else
    return mma::unpack<T>(word);
}
template <class T>
__device__ __forceinline__ Word<T> closed(const float2& two) {
  if constexpr (sizeof(T) == 4)
    return two;
  else
    return mma::pack<T>(two.x, two.y);
}
__device__ __forceinline__ void add(float2& sum, const float2& a, const float2& b) {
  sum.x += a.x * b.x;
  sum.y += a.y * b.y;
}

// R x K taps around P pixels, or up to K in a sequence, where R is 1.
template <class Number, int of_rows, int of_columns, int of_pixels>
struct Shape {
  using T = Number;
  static constexpr int R = of_rows, K = of_columns, P = of_pixels;
  static constexpr int kSpan = kWarps * P, kPixels = kSpan + K - 1;  // without and with neighbours
};

// How the work is cut: an item is a span of columns in a few rows of an image.
struct Plan {
  int tokens, columns, height;
  int across, down, rows;  // items in a row and in a column of an image, rows of an item
  int items;
};
// Rows are split among thread blocks until there are two for each multiprocessor, but not into
// single rows. A sequence has rows of one span, whose neighbours stand in the rows around it.
template <class S>
Plan plan_of(const GridTaps& task) {
  constexpr int64_t kManyBlocks = 264, kFewRows = 2 * S::R;
  const auto parts = [](int64_t all, int64_t each) { return (all + each - 1) / each; };
  const int64_t columns = S::R > 1 ? task.columns : S::kSpan, across = parts(columns, S::kSpan),
                rows = parts(task.tokens, columns),
                blocks = task.batch * across * parts(task.channels, kChannels),
                each = parts(rows,
                             std::clamp<int64_t>(kManyBlocks / blocks, 1, parts(rows, kFewRows))),
                down = parts(rows, each);
  return {static_cast<int>(task.tokens),
          static_cast<int>(columns),
          static_cast<int>(rows),
          static_cast<int>(across),
          static_cast<int>(down),
          static_cast<int>(each),
          static_cast<int>(task.batch * down * across)};
}

struct Item {
  int batch, first, end, column;  // rows, and the first of its columns

  __device__ Item(const Plan& plan, int span, int item) {
    const int image = item / plan.across;
    batch = image / plan.down;
    column = item % plan.across * span;
    first = image % plan.down * plan.rows;
    end = min(first + plan.rows, plan.height);
  }
};

// Brings rows of kPixels pixels from `column` on, for the channels of the block, to shared memory,
// each thread the same 16 bytes of some of them; zeros where the image has no such pixel.
template <class S, int kPixels>
struct Copier {
  using T = typename S::T;
  static constexpr int kPack = 16 / sizeof(T), kPacks = kChannels / kPack,
                       kTurn = kThreads / kPacks, kTurns = (kPixels + kTurn - 1) / kTurn;
  const T* from;  // the first pixel of the thread in the next row
  int64_t pixel;  // from pixel to pixel
  int token, limit;
  unsigned there = 0;  // which of its pixels the image can have

  __device__ __forceinline__ Copier(const void* data, int64_t batch, int64_t stride,
                                    const Plan& plan, int64_t channels, int row, int column,
                                    int end)
      : pixel(stride), limit(end) {
    const int first = column + static_cast<int>(threadIdx.x) / kPacks;
    const int64_t channel =
        blockIdx.y * int64_t{kChannels} + static_cast<int>(threadIdx.x) % kPacks * kPack;
    token = row * plan.columns + first;
    from = static_cast<const T*>(data) + batch + token * stride + channel;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const int at = first + i * kTurn;
      if (channel < channels && (S::R == 1 || (at >= 0 && at < plan.columns))) there |= 1u << i;
    }
  }
  __device__ __forceinline__ void next(T* to, const Plan& plan) {
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const int at = static_cast<int>(threadIdx.x) / kPacks + i * kTurn;
      if (kPixels % kTurn != 0 && i == kTurns - 1 && at >= kPixels) break;
      mma::copy_async(to + (static_cast<int>(threadIdx.x) + i * kThreads) * kPack,
                      from + i * kTurn * pixel,
                      (there >> i & 1) &&
                          static_cast<unsigned>(token + i * kTurn) < static_cast<unsigned>(limit));
    }
    from += plan.columns * pixel;
    token += plan.columns;
  }
};

// Taps and, in the last line, the bias as float32.
template <class T>
__device__ void read_taps(float* table, const GridTaps& task, int count) {
  const int64_t first = blockIdx.y * int64_t{kChannels};
  const int channels = static_cast<int>(min(int64_t{kChannels}, task.channels - first));
  const T* const taps = static_cast<const T*>(task.taps) + first * count;
  const T* const bias = task.bias ? static_cast<const T*>(task.bias) + first : nullptr;
  for (int i = static_cast<int>(threadIdx.x); i < kChannels * (count + 1); i += kThreads) {
    const int channel = i / (count + 1), tap = i % (count + 1);
    float found = 0;
    if (channel < channels && tap < count) found = static_cast<float>(taps[channel * count + tap]);
    if (channel < channels && tap == count && bias) found = static_cast<float>(bias[channel]);
    table[(task.mirrored && tap < count ? count - 1 - tap : tap) * kTableLine + channel] = found;
  }
}
__host__ __device__ constexpr int table_bytes(int count) {
  return ((count + 1) * kTableLine * static_cast<int>(sizeof(float)) + 15) / 16 * 16;
}

// Whether there are pixels to read: above and below an image there are none.
template <class S>
__device__ __forceinline__ bool is_row(const Plan& plan, int row) {
  return S::R == 1 || (row >= 0 && row < plan.height);
}

// x of each pixel that the thread reads, and which of its P pixels see it by which of the taps:
// body(r, j, p, x). Fewer taps than K are not filled up with zeros, which times infinity would not
// be zero.
template <class S, class F>
__device__ __forceinline__ void each_product(const typename S::T* tile, int wide, const F& body) {
  if constexpr (S::R == 1) {
    float2 x[S::P + S::K - 1];
#pragma unroll
    for (int w = 0; w < S::P + S::K - 1; ++w) x[w] = opened(tile + w * kChannels);
#pragma unroll
    for (int j = 0; j < S::K; ++j) {
      if (j >= wide) break;
#pragma unroll
      for (int p = 0; p < S::P; ++p) body(0, j, p, x[p + j]);
    }
  } else {
#pragma unroll
    for (int w = 0; w < S::P + S::K - 1; ++w) {
      const float2 x = opened(tile + w * kChannels);
#pragma unroll
      for (int j = max(0, w - S::P + 1); j < min(S::K, w + 1); ++j)
#pragma unroll
        for (int r = 0; r < S::R; ++r) body(r, j, w - j, x);
    }
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads, S::R < 7 ? 2 : 1) add_up(GridTaps task, Plan plan) {
  using T = typename S::T;
  constexpr int R = S::R, K = S::K, P = S::P;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int wide = R > 1 ? K : static_cast<int>(task.wide), above = static_cast<int>(task.above);
  float* const table = reinterpret_cast<float*>(dynamic_memory());
  T* const stages = reinterpret_cast<T*>(dynamic_memory() + table_bytes(R * wide));
  const Item item(plan, S::kSpan, static_cast<int>(blockIdx.x));
  const int steps = item.end - item.first + R - 1, own = item.column + warp * P;
  Copier<S, S::kPixels> z(task.z, item.batch * task.z_batch, task.z_token, plan, task.channels,
                          item.first - above, item.column - static_cast<int>(task.left),
                          plan.tokens);
  const auto copy = [&](int step) {
    if (step < steps) z.next(stages + step % kStages * (S::kPixels * kChannels), plan);
    mma::commit_copies();
  };
#pragma unroll
  for (int step = 0; step < kStages - 1; ++step) copy(step);
  read_taps<T>(table, task, R * wide);
  __syncthreads();
  float2 taps[R * K], sum[R][P];
#pragma unroll
  for (int i = 0; i < R * K; ++i)
    taps[i] = i < R * wide
                  ? float2{table[i * kTableLine + 2 * lane], table[i * kTableLine + 2 * lane + 1]}
                  : float2{0, 0};
  const float2 bias = {table[R * wide * kTableLine + 2 * lane],
                       table[R * wide * kTableLine + 2 * lane + 1]};
  const int channels = static_cast<int>(task.channels),
            channel = static_cast<int>(blockIdx.y) * kChannels + 2 * lane;
  const bool there = channel < channels;
  T* y = static_cast<T*>(task.y) + channel +
         (item.batch * task.tokens + item.first * plan.columns + own) * channels;
  for (int begin = 0; begin < steps; begin += R)
#pragma unroll
    for (int k = 0; k < R; ++k) {
      const int step = begin + k, row = item.first + step - (R - 1);
      if (step >= steps) break;
      mma::await_copies<kStages - 2>();
      __syncthreads();
      copy(step + kStages - 1);
#pragma unroll
      for (int p = 0; p < P; ++p) sum[k][p] = bias;
      if (is_row<S>(plan, item.first - above + step))
        each_product<S>(
            stages + step % kStages * (S::kPixels * kChannels) + warp * P * kChannels + 2 * lane,
            wide, [&](int r, int j, int p, const float2& x) {
              add(sum[(k - r + R) % R][p], taps[r * K + j], x);
            });
      if (step < R - 1) continue;
      // The row whose last neighbours these were.
      const int length = min(plan.columns, plan.tokens - row * plan.columns) - own;
#pragma unroll
      for (int p = 0; p < P; ++p)
        if (there && p < length)
          *reinterpret_cast<Word<T>*>(y + p * channels) = closed<T>(sum[(k + 1) % R][p]);
      y += int64_t{plan.columns} * channels;
    }
}

// The sums of a block's threads, warp after warp.
template <class S>
__device__ __forceinline__ void write_sums(const GridTapsBackward& all, float* table,
                                           const float2 (&dtaps)[S::R * S::K], const float2& dbias,
                                           int wide) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int count = S::R * wide;
  for (int turn = 0; turn < kWarps; ++turn) {
    const auto put = [&](int line, const float2& sum) {
      float* const to = table + line * kTableLine + 2 * lane;
      to[0] = turn == 0 ? sum.x : to[0] + sum.x;
      to[1] = turn == 0 ? sum.y : to[1] + sum.y;
    };
    if (warp == turn) {
#pragma unroll
      for (int i = 0; i < S::R * S::K; ++i)
        if (i < count) put(i, dtaps[i]);
      put(count, dbias);
    }
    __syncthreads();
  }
  const int64_t channels = all.past.channels, first = blockIdx.y * int64_t{kChannels};
  float* const to = all.sums + blockIdx.x * (count + 1) * channels + first;
  for (int i = static_cast<int>(threadIdx.x); i < (count + 1) * kChannels; i += kThreads)
    if (const int line = i / kChannels, channel = i % kChannels; first + channel < channels)
      to[line * channels + channel] = table[line * kTableLine + channel];
}

template <class S>
__global__ void __launch_bounds__(kThreads, S::R < 7 ? 2 : 1)
    differentiate(GridTapsBackward all, Plan plan) {
  using T = typename S::T;
  constexpr int R = S::R, K = S::K, P = S::P;
  constexpr int kStage = (S::kPixels + S::kSpan) * kChannels;  // of z, then of dy
  const auto& task = all.past;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int wide = R > 1 ? K : static_cast<int>(task.wide), above = static_cast<int>(task.above);
  float* const table = reinterpret_cast<float*>(dynamic_memory());
  T* const stages = reinterpret_cast<T*>(dynamic_memory() + table_bytes(R * wide));
  float2 dtaps[R * K] = {}, dbias = {0, 0};
  for (int i = static_cast<int>(blockIdx.x); i < plan.items; i += static_cast<int>(gridDim.x)) {
    const Item item(plan, S::kSpan, i);
    const int steps = item.end - item.first + R - 1;
    Copier<S, S::kPixels> z(task.z, item.batch * task.z_batch, task.z_token, plan, task.channels,
                            item.first - above, item.column - static_cast<int>(task.left),
                            plan.tokens);
    Copier<S, S::kSpan> dy(all.dy, item.batch * all.dy_batch, all.dy_token, plan, task.channels,
                           item.first, item.column, min(plan.tokens, item.end * plan.columns));
    const auto copy = [&](int step) {
      T* const to = stages + step % kStages * kStage;
      if (step < steps) {
        z.next(to, plan);
        dy.next(to + S::kPixels * kChannels, plan);
      }
      mma::commit_copies();
    };
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) copy(step);
    float2 slopes[R][P] = {};
    for (int begin = 0; begin < steps; begin += R)
#pragma unroll
      for (int k = 0; k < R; ++k) {
        const int step = begin + k;
        if (step >= steps) break;
        mma::await_copies<kStages - 2>();
        __syncthreads();
        copy(step + kStages - 1);
        const T* const tile = stages + step % kStages * kStage + warp * P * kChannels + 2 * lane;
#pragma unroll
        for (int p = 0; p < P; ++p) {
          slopes[k][p] = opened(tile + (S::kPixels + p) * kChannels);
          dbias.x += slopes[k][p].x;
          dbias.y += slopes[k][p].y;
        }
        if (is_row<S>(plan, item.first - above + step))
          each_product<S>(tile, wide, [&](int r, int j, int p, const float2& x) {
            add(dtaps[r * K + j], slopes[(k - r + R) % R][p], x);
          });
      }
  }
  write_sums<S>(all, table, dtaps, dbias, wide);
}

// body<Shape>().
template <class F>
auto with_shape(const GridTaps& task, const F& body) {
  const auto of_type = [&]<class T>() {
    if (task.tall == 1)
      return task.wide <= 4 ? body.template operator()<Shape<T, 1, 4, 8>>()
                            : body.template operator()<Shape<T, 1, kMostSequenceTaps, 8>>();
    if (task.tall == 3) return body.template operator()<Shape<T, 3, 3, 4>>();
    if (task.tall == 5) return body.template operator()<Shape<T, 5, 5, 4>>();
    return body.template operator()<Shape<T, kMostImageTaps, kMostImageTaps, 2>>();
  };
  if (task.type == Element::float32) return of_type.template operator()<float>();
  if (task.type == Element::bfloat16) return of_type.template operator()<__nv_bfloat16>();
  return of_type.template operator()<__half>();
}

dim3 blocks_of(const GridTaps& task, int64_t items) {
  return {static_cast<unsigned>(items),
          static_cast<unsigned>((task.channels + kChannels - 1) / kChannels)};
}
template <class S>
size_t bytes_of(const GridTaps& task, int pixels) {
  constexpr int64_t kNumber = sizeof(typename S::T);
  static_assert(table_bytes(S::R * S::K) +
                    kStages * (S::kPixels + S::kSpan) * kChannels * kNumber <=
                grid_taps_memory(S::R, S::K, kNumber));
  return table_bytes(static_cast<int>(task.tall * task.wide)) +
         kStages * pixels * kChannels * kNumber;
}

}  // namespace

void grid_taps_cuda(const GridTaps& task, void* stream) noexcept {
  with_shape(task, [&]<class S>() {
    const auto plan = plan_of<S>(task);
    launch(add_up<S>, blocks_of(task, plan.items), kThreads, bytes_of<S>(task, S::kPixels), stream,
           task, plan);
  });
}

int64_t grid_taps_parts(const GridTaps& task) noexcept {
  constexpr int kMostParts = 264;
  return with_shape(
      task, [&]<class S>() -> int64_t { return std::min(kMostParts, plan_of<S>(task).items); });
}

void grid_taps_backward_cuda(const GridTapsBackward& task, void* stream) noexcept {
  with_shape(task.past, [&]<class S>() {
    launch(differentiate<S>, blocks_of(task.past, task.parts), kThreads,
           bytes_of<S>(task.past, S::kPixels + S::kSpan), stream, task, plan_of<S>(task.past));
  });
}

}  // namespace longbow::kernels
