// As causal_features.cu, for spans of 128 tokens that a block holds as a whole: it waits for memory
// once. A warp owns 16 tokens and meets 16 others at a time, none that it does not see, so that the
// weights of pairs take few registers.
#include "longbow/kernels/cuda/causal_features.h"
#include "longbow/kernels/cuda/tile_rows.h"

namespace longbow::kernels {
namespace {

using mma::padded;

constexpr int kThreads = 256, kSpan = kWholeSpan, kGroups = kSpan / 16;
constexpr int D = 64;  // channels of queries, keys and values
constexpr int kStride = padded(D);

// Turned features are the mapped x times the cosine and the sine of an angle of their token: the
// sums are of both, and pairs are those of the mapped x times the cosine of the difference.
template <bool kTurned>
struct Memory {
  static constexpr int kHalves = kTurned ? 2 : 1, R = kHalves * D;
  static constexpr size_t kBytes =
      sizeof(Number) * (SplitSums<R, D>::kNumbers + 4 * kSpan * kStride) +
      sizeof(float) * (R + 2 * kSpan) + sizeof(float2) * 2 * kSpan;
  SplitSums<R, D> sums;
  Number *x, *other_x, *y, *other_y;  // [128, D], of which x are mapped
  float2 *turns, *other_turns;        // [128]; of one that is not turned (1, 0), or nothing
  float *z, *column, *other_column;   // [R], [128], [128]

  __device__ explicit Memory(unsigned char* shared)
      : sums(reinterpret_cast<Number*>(shared)),
        x(sums.high + sums.kNumbers),
        other_x(x + kSpan * kStride),
        y(other_x + kSpan * kStride),
        other_y(y + kSpan * kStride),
        turns(reinterpret_cast<float2*>(other_y + kSpan * kStride)),
        other_turns(turns + kSpan),
        z(reinterpret_cast<float*>(other_turns + kSpan)),
        column(z + R),
        other_column(column + kSpan) {}
  // The sums of one half of the features.
  __device__ SplitSums<D, D> half(int i) const {
    SplitSums<D, D> part(sums.high + i * D * kStride);
    part.low = sums.low + i * D * kStride;
    return part;
  }
};

// Rows of x of a span on their way to shared memory, half of the tokens each.
struct SpanStage {
  FeatureStage<D, false, kThreads> half[2];

  __device__ void load(const Features& from, const Span& span) {
    half[0].load(from, span, span.first);
    half[1].load(from, span, span.first + kTile);
  }
  __device__ void store(FeatureMap map, Number* x) {
    half[0].store(map, x);
    half[1].store(map, x + kTile * kStride);
  }
};
using Values = Stage<D, kThreads, kSpan>;

// Early tokens see little of their span and late ones much, or the other way round: the warps that
// share a scheduler, w and w + 4, have together as much to do as any two.
__device__ inline int group_of_warp() {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return warp < kGroups / 2 ? warp : kGroups * 3 / 2 - 1 - warp;
}

// Of 16 tokens with themselves, only pairs whose other token is not later stay, or not earlier.
__device__ inline void mask_own(mma::C (&pairs)[1][2], bool later) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int own = g + i % 4 / 2 * 8, other = i / 4 * 8 + 2 * t + i % 2;
    if (later ? other < own : other > own) pairs[0][i / 4].part[i % 4] = 0;
  }
}

template <bool kTurned>
struct Block {
  static constexpr int kHalves = Memory<kTurned>::kHalves, R = Memory<kTurned>::R;
  const CausalFeatures& task;
  const Memory<kTurned>& memory;
  Span span;
  int own;        // the first of the 16 tokens of this warp
  int64_t token;  // of the head

  __device__ Block(const CausalFeatures& all, const Memory<kTurned>& shared)
      : task(all), memory(shared), own(group_of_warp() * 16) {
    const int64_t group = blockIdx.y, first = blockIdx.x * int64_t{kSpan}, end = first + kSpan;
    const auto heads = static_cast<unsigned>(all.heads);
    span = {group, blockIdx.y / heads, blockIdx.y % heads, first,
            end < all.x.tokens ? end : all.x.tokens};
    token = group * all.x.tokens;
  }
  __device__ int64_t here() const { return span.first + own; }
  __device__ Number* own_x() const { return memory.x + own * kStride; }
  __device__ Number* own_y() const { return memory.y + own * kStride; }
  __device__ float* own_column() const { return memory.column + own; }

  // Everything but the columns. In the backward pass y of the queries is divided.
  template <bool kGradient, bool kQueries>
  __device__ void load() const {
    const int thread = static_cast<int>(threadIdx.x), row = thread % kSpan;
    const float* sums = task.sums + (span.group * gridDim.x + blockIdx.x) * R * (D + 4);
    SpanStage x, other;
    Values y, other_y;
    x.load(task.x, span);
    other.load(task.other, span);
    if constexpr (kGradient)
      y.load(rows_of(task.y, span.b, span.h), span.first, span.end, task.depth);
    other_y.load(rows_of(task.other_y, span.b, span.h), span.first, span.end, task.depth);
    x.store(task.x.map, memory.x);
    other.store(task.other.map, memory.other_x);
    if constexpr (kGradient) {
      if (task.inverse) {
        if constexpr (kQueries)
          y.scale(task.inverse + token, span.first, span.end);
        else
          other_y.scale(task.inverse + token, span.first, span.end);
      }
      y.store(memory.y);
    }
    other_y.store(memory.other_y);
    (thread < kSpan ? memory.turns : memory.other_turns)[row] =
        turn_of<kTurned>(thread < kSpan ? task.x : task.other, span.b, span.first + row, span.end);
    memory.sums.fill(sums, kThreads);
    for (int r = thread; r < R; r += kThreads) memory.z[r] = sums[r * (D + 4) + D];
  }

  // What the mapped x of the rows g and g + 8 are multiplied by in a half of the features.
  __device__ void factors_of(int half, float (&factor)[2]) const {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
    for (int low = 0; low < 2; ++low) {
      const float2 turn = memory.turns[own + g + 8 * low];
      factor[low] = half == 0 ? turn.x : turn.y;
    }
  }
  // sum += factor part, where features are turned.
  __device__ __forceinline__ void add_turned(mma::C (&sum)[D / 8], const mma::C (&part)[D / 8],
                                             int half) const {
    float factor[2];
    factors_of(half, factor);
#pragma unroll
    for (int i = 0; i < D / 2; ++i)
      sum[i / 4].part[i % 4] += factor[i % 4 / 2] * part[i / 4].part[i % 4];
  }
  // sum [16, D] += own features times the sums.
  __device__ __forceinline__ void add_sums(mma::C (&sum)[D / 8]) const {
    if constexpr (!kTurned) {
      times_sums<D, D>(sum, own_x(), memory.half(0));
    } else {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        mma::C part[D / 8] = {};
        times_sums<D, D>(part, own_x(), memory.half(half));
        add_turned(sum, part, half);
      }
    }
  }
  // Pairs with 16 others from n on, times the cosines of the differences of their angles.
  __device__ __forceinline__ void turn(mma::C (&pairs)[1][2], int n) const {
    if constexpr (!kTurned) return;
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const float2 upper = memory.turns[own + g], lower = memory.turns[own + g + 8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 other = memory.other_turns[n + i / 2 * 8 + 2 * t + i % 2];
      pairs[0][i / 2].part[i % 2] *= upper.x * other.x + upper.y * other.y;
      pairs[0][i / 2].part[2 + i % 2] *= lower.x * other.x + lower.y * other.y;
    }
  }

  // use(the first of 16 others, whether they are the own ones) for all that these tokens meet.
  template <bool kQueries, class F>
  __device__ __forceinline__ void each_group(const F& use) const {
    const int first = kQueries ? 0 : own, last = kQueries ? own : kSpan - 16;
#pragma unroll 1
    for (int n = first; n <= last; n += 16) use(n, n == own);
  }
  // The weights of pairs with 16 others.
  __device__ __forceinline__ void weigh(mma::C (&pairs)[1][2], const mma::A (&left)[1][D / 16],
                                        int n, bool same, bool later) const {
#pragma unroll
    for (auto& pair : pairs[0]) pair = {};
    blocks::add_products<Number>(pairs, left, memory.other_x + n * kStride);
    turn(pairs, n);
    if (same) mask_own(pairs, later);
  }

  // What the own queries read, not yet divided, and the sums of their weights, of which each of
  // four neighbouring lanes has a part.
  template <bool exact>
  __device__ __forceinline__ void read(mma::C (&values)[1][D / 8], float (&weights)[2]) const {
    const int t = static_cast<int>(threadIdx.x) % 4;
    add_sums(values[0]);
    weights[0] = weights[1] = 0;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      mma::C part = {};
      float factor[2];
      factors_of(half, factor);
#pragma unroll
      for (int k = 0; k < D; k += 16)
        mma::multiply<Number>(part, mma::a_of_rows(own_x() + k, kStride),
                              split_column(memory.z + half * D + k));
#pragma unroll
      for (int low = 0; low < 2; ++low)
        if (t == 0)
          weights[low] +=
              (kTurned ? factor[low] : 1) * (part.part[2 * low] + part.part[2 * low + 1]);
    }
    mma::A left[1][D / 16];
    blocks::load_left(left, own_x());
    each_group<true>([&](int n, bool same) {
      mma::C pairs[1][2];
      weigh(pairs, left, n, same, false);
#pragma unroll
      for (int i = 0; i < 8; ++i) weights[i % 4 / 2] += pairs[0][i / 4].part[i % 4];
      const Number* rows = memory.other_y + n * kStride;
      const mma::A a[1] = {mma::a_of<Number>(pairs[0][0], pairs[0][1])};
      blocks::add_weighed<Number>(values, a, rows);
      if constexpr (exact) {
        const mma::A rest[1] = {rest_of(pairs[0], a[0])};
        blocks::add_weighed<Number>(values, rest, rows);
      }
    });
  }

  // dy = what the own keys add to what queries read.
  __device__ __forceinline__ void find_dy(mma::C (&dy)[1][D / 8]) const {
    add_sums(dy[0]);
    mma::A left[1][D / 16];
    blocks::load_left(left, own_x());
    each_group<false>([&](int n, bool same) {
      mma::C pairs[1][2];
      weigh(pairs, left, n, same, true);
      const mma::A weights[1] = {mma::a_of<Number>(pairs[0][0], pairs[0][1])};
      blocks::add_weighed<Number>(dy, weights, memory.other_y + n * kStride);
    });
  }

  // dx += what the sums add to the gradient of the mapped x.
  __device__ __forceinline__ void add_slopes(mma::C (&dx)[1][D / 8],
                                             const mma::A (&slopes)[1][D / 16]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const float column[2] = {own_column()[g], own_column()[g + 8]};
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      mma::C part[1][D / 8];
#pragma unroll
      for (int i = 0; i < D / 2; ++i)
        part[0][i / 4].part[i % 4] =
            column[i % 4 / 2] * memory.z[half * D + i / 4 * 8 + 2 * t + i % 2];
      const auto sums = memory.half(half);
      blocks::add_products<Number>(part, slopes, sums.high);
      blocks::add_products<Number>(part, slopes, sums.low);
      add_turned(dx[0], part[0], half);
    }
  }
  // dx += what the pairs of the span add.
  template <bool kQueries>
  __device__ __forceinline__ void add_pairs(mma::C (&dx)[1][D / 8],
                                            const mma::A (&slopes)[1][D / 16]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    const float column[2] = {own_column()[g], own_column()[g + 8]};
    each_group<kQueries>([&](int n, bool same) {
      const Number* others = memory.other_x + n * kStride;
      mma::C pairs[1][2];
#pragma unroll
      for (int i = 0; i < 8; ++i)
        pairs[0][i / 4].part[i % 4] =
            kQueries ? column[i % 4 / 2] : memory.other_column[n + i / 4 * 8 + 2 * t + i % 2];
      blocks::add_products<Number>(pairs, slopes, memory.other_y + n * kStride);
      turn(pairs, n);
      if (same) mask_own(pairs, !kQueries);
      const mma::A a[1] = {mma::a_of<Number>(pairs[0][0], pairs[0][1])};
      blocks::add_weighed<Number>(dx, a, others);
      // The first queries see few keys, so that little is left of large parts.
      if constexpr (kQueries) {
        const mma::A rest[1] = {rest_of(pairs[0], a[0])};
        blocks::add_weighed<Number>(dx, rest, others);
      }
    });
  }

  // The own rows of x in the place of the mapped ones; zeros where a token is not kept.
  __device__ void load_own_rows() const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const HeadRows from = rows_of(task.x.x, span.b, span.h);
    __syncwarp();
    for (int i = lane; i < 16 * D / 8; i += 32) {
      const int channel = i % (D / 8) * 8;
      const int64_t n = here() + i / (D / 8);
      const bool there = n < span.end && channel < task.x.width &&
                         (!task.x.keep || task.x.keep[span.b * task.x.tokens + n]);
      *reinterpret_cast<uint4*>(own_x() + i / (D / 8) * kStride + channel) =
          there ? *reinterpret_cast<const uint4*>(from.data + n * from.stride + channel)
                : uint4{0, 0, 0, 0};
    }
    __syncwarp();
  }
};

template <bool kTurned>
__global__ void __launch_bounds__(kThreads, 2) read(CausalRead given) {
  const auto& task = given.features;
  const Memory<kTurned> memory(dynamic_memory());
  const Block<kTurned> block(task, memory);
  block.template load<false, true>();
  __syncthreads();
  mma::C values[1][D / 8] = {}, weights = {};
  float sums[2];
  block.template read<false>(values, sums);
  over_lanes(sums[0]);
  over_lanes(sums[1]);
  if (threadIdx.x % 4 == 0) {  // where a product leaves them
    weights.part[0] = sums[0];
    weights.part[2] = sums[1];
  }
  const auto divisor = divisors(weights, given);
  __syncwarp();
  put_product<D>(block.own_x(), values[0], divisor.factor[0], divisor.factor[1]);
  write_rows<D>(block.own_x(), rows_of(given.out, block.span.b, block.span.h), block.here(),
                block.span.end, task.depth);
  divisor.write(given.inverse + block.token, block.here(), block.span.end);
}

// What was read once more, for the columns of the own queries.
template <bool kTurned>
__device__ __forceinline__ void find_columns(const Block<kTurned>& block) {
  const auto& task = block.task;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  mma::C values[1][D / 8] = {};
  float weights[2];
  block.template read<true>(values, weights);
  put_column<D>(block.own_column(), values[0], block.own_y(),
                task.inverse + block.token + block.here(), block.span.end - block.here());
  if (lane < 16 && block.here() + lane < block.span.end)
    task.column[block.token + block.here() + lane] = block.own_column()[lane];
}

template <bool kTurned, bool kQueries>
__global__ void __launch_bounds__(kThreads, 2) gradient(CausalGradient given) {
  const auto& task = given.features;
  const Memory<kTurned> memory(dynamic_memory());
  const Block<kTurned> block(task, memory);
  const int thread = static_cast<int>(threadIdx.x), g = thread % 32 / 4;
  block.template load<true, kQueries>();
  if (thread < kSpan) {
    const int64_t n = block.span.first + thread;
    const bool there = n < block.span.end;
    memory.column[thread] = kQueries && !task.inverse && there ? task.column[block.token + n] : 1;
    memory.other_column[thread] = !kQueries && there ? task.column[block.token + n] : 1;
  }
  __syncthreads();
  if (kQueries && task.inverse) find_columns(block);

  mma::A slopes[1][D / 16];
  blocks::load_left(slopes, block.own_y());
  if constexpr (!kQueries) {
    mma::C dy[1][D / 8] = {};
    block.find_dy(dy);
    __syncwarp();
    put_product<D>(block.own_y(), dy[0], 1, 1);
    write_rows<D>(block.own_y(), rows_of(given.dy, block.span.b, block.span.h), block.here(),
                  block.span.end, task.depth);
  }
  mma::C dx[1][D / 8] = {};
  block.add_slopes(dx, slopes);
  block.template add_pairs<kQueries>(dx, slopes);
  // Turned already; but where a token is not kept, the turn is nothing.
  const float2 one = {1, 0}, *turns = memory.turns + block.own,
               left[2] = {kTurned ? one : turns[g], kTurned ? one : turns[g + 8]};
  block.load_own_rows();
  put_slopes<D, false>(block.own_x(), dx[0], task.x.map, left);
  write_rows<D>(block.own_x(), rows_of(given.dx, block.span.b, block.span.h), block.here(),
                block.span.end, task.x.width);
}

template <bool kTurned>
bool fits() {
  static const bool fits = static_cast<size_t>(most_dynamic_memory()) >= Memory<kTurned>::kBytes;
  return fits;
}

dim3 blocks_of(const CausalFeatures& task) {
  return {static_cast<unsigned>((task.x.tokens + kSpan - 1) / kSpan),
          static_cast<unsigned>(task.batch * task.heads)};
}

}  // namespace

bool has_whole_spans(const CausalFeatures& task) noexcept {
  if (task.shape.depth != D) return false;
  return task.x.turns ? task.shape.features == 2 * D && fits<true>() : task.shape.features == D;
}

void span_read_cuda(const CausalRead& task, void* stream) noexcept {
  const auto blocks = blocks_of(task.features);
  if (task.features.x.turns)
    launch(read<true>, blocks, kThreads, Memory<true>::kBytes, stream, task);
  else
    launch(read<false>, blocks, kThreads, Memory<false>::kBytes, stream, task);
}

void span_gradient_cuda(const CausalGradient& task, void* stream) noexcept {
  const auto blocks = blocks_of(task.features);
  if (task.features.x.turns)
    launch(task.queries ? gradient<true, true> : gradient<true, false>, blocks, kThreads,
           Memory<true>::kBytes, stream, task);
  else
    launch(task.queries ? gradient<false, true> : gradient<false, false>, blocks, kThreads,
           Memory<false>::kBytes, stream, task);
}

}  // namespace longbow::kernels
