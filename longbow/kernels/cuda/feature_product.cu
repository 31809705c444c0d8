// Every pass walks over spans of tokens, 64 at a time; the next 64 are on their way to registers
// while tensor cores work on these. Where sums are formed, a warp owns 16 or 32 rows of S; where
// they are read, a warp owns 16 tokens.
#include "longbow/kernels/cuda/feature_stage.h"
#include "longbow/kernels/cuda/narrow_features.h"

namespace longbow::kernels {
namespace {

using mma::padded;

template <int R>
constexpr int kSumWarps = R >= 128 ? 8 : 4;

template <int R, int D>
constexpr size_t kSumBytes = sizeof(Number) * kTile*(padded(R) + padded(D)) + sizeof(float) * kTile;

// Blocks on a multiprocessor, no more than feature_sums_span supposes.
template <int R, int D>
constexpr int kSumBlocks = R == 64        ? 4
                           : R + D <= 192 ? 2
                                          : 1;

template <int R, int D, bool kTurned>
__global__ void __launch_bounds__(32 * kSumWarps<R>, kSumBlocks<R, D>) form_sums(FeatureSums task) {
  constexpr int kWarps = kSumWarps<R>, kThreads = 32 * kWarps, kRows = R / 16 / kWarps;
  unsigned char* const shared = dynamic_memory();
  auto* phi = reinterpret_cast<Number*>(shared);
  auto* values = phi + kTile * padded(R);
  auto* column = reinterpret_cast<float*>(values + kTile * padded(D));
  const Span span = span_of(task);
  const HeadRows value = rows_of(task.value, span.b, span.h);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int64_t token = span.group * task.x.tokens;

  mma::C sums[kRows][D / 8] = {}, beside[kRows] = {};
  FeatureStage<R, kTurned, kThreads> x;
  Stage<D, kThreads> v;
  float own_scale = 0, own_column = 0;  // of a token of this thread
  const auto load = [&](int64_t first) {
    x.load(task.x, span, first);
    v.load(value, first, span.end, task.depth);
    if (task.scale) own_scale = v.scale_of(task.scale + token, first, span.end);
    const int64_t n = first + thread;
    own_column = n >= span.end ? 0 : task.column ? task.column[token + n] : 1;
  };
  load(span.first);
  for (int64_t first = span.first; first < span.end; first += kTile) {
    __syncthreads();
    x.store(task.x.map, phi);
    if (task.scale) v.scale(own_scale);
    v.store(values);
    if (thread < kTile) column[thread] = own_column;
    __syncthreads();
    if (first + kTile < span.end) load(first + kTile);
#pragma unroll
    for (int k = 0; k < kTile; k += 16) {
      const mma::B last = split_column(column + k);
      mma::A a[kRows];
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        a[m] = mma::a_of_columns(phi + k * padded(R) + (warp * kRows + m) * 16, padded(R));
        mma::multiply<Number>(beside[m], a[m], last);
      }
#pragma unroll
      for (int n = 0; n < D / 16; ++n) {
        const mma::TwoB b = mma::b_of_rows(values + k * padded(D) + n * 16, padded(D));
#pragma unroll
        for (int m = 0; m < kRows; ++m) {
          mma::multiply<Number>(sums[m][2 * n], a[m], b.tile[0]);
          mma::multiply<Number>(sums[m][2 * n + 1], a[m], b.tile[1]);
        }
      }
    }
  }

  float* out = task.sums + (span.group * gridDim.x + blockIdx.x) * R * (D + 4);
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    float* upper = out + ((warp * kRows + m) * 16 + g) * (D + 4);
    float* lower = upper + 8 * (D + 4);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const auto& c = sums[m][n].part;
      *reinterpret_cast<float2*>(upper + n * 8 + 2 * t) = {c[0], c[1]};
      *reinterpret_cast<float2*>(lower + n * 8 + 2 * t) = {c[2], c[3]};
    }
    if (t > 0) continue;
    const auto& c = beside[m].part;
    *reinterpret_cast<float4*>(upper + D) = {c[0] + c[1], 0, 0, 0};
    *reinterpret_cast<float4*>(lower + D) = {c[2] + c[3], 0, 0, 0};
  }
}

// Span after span, so that the sum is the same every time; some are read ahead.
__global__ void fold(FeatureFold task) {
  constexpr int kAhead = 8;
  const int64_t size = task.size / 4, all = task.groups * size;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < all;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t first = i / size * size * task.spans + i % size;
    const auto* from = reinterpret_cast<const float4*>(task.from) + first;
    auto* each = reinterpret_cast<float4*>(task.to) + first;
    float4 sum = {0, 0, 0, 0};
    const auto place = [&](int64_t n) {
      return (task.order == FoldOrder::after ? task.spans - 1 - n : n) * size;
    };
    for (int64_t begin = 0; begin < task.spans; begin += kAhead) {
      float4 next[kAhead];
#pragma unroll
      for (int n = 0; n < kAhead; ++n)
        if (begin + n < task.spans) next[n] = from[place(begin + n)];
#pragma unroll
      for (int n = 0; n < kAhead; ++n) {
        if (begin + n >= task.spans) break;
        if (task.order != FoldOrder::all) each[place(begin + n)] = sum;
        sum = {sum.x + next[n].x, sum.y + next[n].y, sum.z + next[n].z, sum.w + next[n].w};
      }
    }
    if (task.order == FoldOrder::all) reinterpret_cast<float4*>(task.to)[i] = sum;
  }
}

template <int R, int D>
constexpr size_t kReadBytes = sizeof(Number) * (SplitSums<R, D>::kNumbers + kTile * padded(R)) +
                              sizeof(float) * R;

// As many as its tables and registers let live on a multiprocessor.
template <int R, int D>
constexpr int kReaders = resident(kReadBytes<R, D>, R == 64 ? 4 : 3);

template <int R, int D, bool kTurned>
__global__ void __launch_bounds__(kReadThreads, kReaders<R, D>) read(FeatureRead task) {
  unsigned char* const shared = dynamic_memory();
  const SplitSums<R, D> sums(reinterpret_cast<Number*>(shared));
  auto* phi = sums.high + sums.kNumbers;
  auto* z = reinterpret_cast<float*>(phi + kTile * padded(R));
  const Span span = span_of(task);
  const HeadRows out = rows_of(task.out, span.b, span.h);
  const float* from = task.sums + span.group * R * (D + 4);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  auto* own = phi + warp * 16 * padded(R);  // of this warp

  FeatureStage<R, kTurned, kReadThreads> x;
  x.load(task.x, span, span.first);
  sums.fill(from, kReadThreads);
  fill_last<R>(z, from + D, D + 4);
  for (int64_t first = span.first; first < span.end; first += kTile) {
    __syncthreads();
    x.store(task.x.map, phi);
    __syncthreads();
    if (first + kTile < span.end) x.load(task.x, span, first + kTile);
    mma::C values[D / 8] = {}, weights = {};
    times_sums<R, D>(values, own, sums);
#pragma unroll 4
    for (int k = 0; k < R; k += 16)
      mma::multiply<Number>(weights, mma::a_of_rows(own + k, padded(R)), split_column(z + k));
    const auto divisor = divisors(weights, task);
    __syncwarp();
    put_product<D>(own, values, divisor.factor[0], divisor.factor[1]);
    write_rows<D>(own, out, first + warp * 16, span.end, task.depth);
    divisor.write(task.inverse + span.group * task.x.tokens, first + warp * 16, span.end);
  }
}

// From dphi = y [16, D] S^T + column z, formed 16 channels at a time, to the gradient of x,
// which takes the place of x: 16 rows.
template <int R, int D, bool kTurned>
__device__ void put_gradient(Number* x, const Number* y, const SplitSums<R, D>& sums,
                             const float* z, FeatureMap map, const float* column,
                             const float2* turn) {
  constexpr int X = kTurned ? R / 2 : R, kHalves = kTurned ? 2 : 1;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const float columns[2] = {column[g], column[g + 8]};
  const float2 turns[2] = {turn[g], turn[g + 8]};
  mma::A a[D / 16];
#pragma unroll
  for (int k = 0; k < D / 16; ++k) a[k] = mma::a_of_rows(y + k * 16, padded(D));
#pragma unroll 2
  for (int c = 0; c < X; c += 16) {
    float dx[2][2][2] = {};  // 8 channels beside 8, upper and lower row, two channels
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const int r = half * X + c;
      mma::C dphi[2];
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) dphi[n].part[i] = columns[i / 2] * z[r + n * 8 + 2 * t + i % 2];
#pragma unroll
      for (int k = 0; k < D / 16; ++k)
#pragma unroll
        for (const Number* part : {sums.high, sums.low}) {
          const mma::TwoB b = mma::b_of_columns(part + r * sums.kStride + k * 16, sums.kStride);
          mma::multiply<Number>(dphi[0], a[k], b.tile[0]);
          mma::multiply<Number>(dphi[1], a[k], b.tile[1]);
        }
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          dx[n][i / 2][i % 2] += dphi[n].part[i] * (half == 0 ? turns[i / 2].x : turns[i / 2].y);
    }
    uint32_t* place[4];  // 8 channels beside 8, upper and lower row
    float slopes[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      place[i] =
          reinterpret_cast<uint32_t*>(x + (g + i % 2 * 8) * padded(X) + c + i / 2 * 8 + 2 * t);
      const float2 was = mma::unpack<Number>(*place[i]);
      slopes[2 * i] = was.x;
      slopes[2 * i + 1] = was.y;
    }
    apply_slope(map, slopes);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      *place[i] = mma::pack<Number>(dx[i / 2][i % 2][0] * slopes[2 * i],
                                    dx[i / 2][i % 2][1] * slopes[2 * i + 1]);
  }
}

// Tables and tiles of the backward pass.
template <int R, int D, bool kTurned>
struct GradientMemory {
  static constexpr int kWidth = kTurned ? R / 2 : R;
  static constexpr size_t kBytes =
      sizeof(Number) *
          (SplitSums<R, D>::kNumbers + kTile * (padded(R) + padded(D) + padded(kWidth))) +
      sizeof(float) * (R + 3 * kTile);
  SplitSums<R, D> sums;
  Number *phi, *y, *x;  // [64, R], [64, D], [64, kWidth]
  float2* turn;         // [64]
  float *z, *column;    // [R], [64]

  __device__ explicit GradientMemory(unsigned char* shared)
      : sums(reinterpret_cast<Number*>(shared)),
        phi(sums.high + sums.kNumbers),
        y(phi + kTile * padded(R)),
        x(y + kTile * padded(D)),
        turn(reinterpret_cast<float2*>(x + kTile * padded(kWidth))),
        z(reinterpret_cast<float*>(turn + kTile)),
        column(z + R) {}
};

template <int R, int D, bool kTurned>
constexpr int kGradients = resident(GradientMemory<R, D, kTurned>::kBytes, 3);

template <int R, int D, bool kTurned>
__global__ void __launch_bounds__(kReadThreads, kGradients<R, D, kTurned>)
    gradient(FeatureGradient task) {
  unsigned char* const shared = dynamic_memory();
  using Memory = GradientMemory<R, D, kTurned>;
  const Memory memory(shared);
  const Span span = span_of(task);
  const HeadRows rows = rows_of(task.y, span.b, span.h), dx = rows_of(task.dx, span.b, span.h);
  const float* from = task.sums + span.group * R * (D + 4);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int64_t token = span.group * task.x.tokens;
  Number *own_x = memory.x + warp * 16 * padded(Memory::kWidth),
         *own_y = memory.y + warp * 16 * padded(D), *own_phi = memory.phi + warp * 16 * padded(R);
  float* own_column = memory.column + warp * 16;

  FeatureStage<R, kTurned, kReadThreads> x;
  Stage<D, kReadThreads> y;
  Turn<kTurned> turn;  // of a token of this thread, as the others
  float scale = 0, column = 1;
  const auto load = [&](int64_t first) {
    x.load(task.x, span, first);
    y.load(rows, first, span.end, task.depth);
    if (task.inverse) scale = y.scale_of(task.inverse + token, first, span.end);
    const int64_t n = first + thread;
    if (thread >= kTile) return;
    turn.load(task.x, span.b, n, span.end);
    if (task.queries && !task.inverse) column = n < span.end ? task.column[token + n] : 1;
  };
  load(span.first);
  memory.sums.fill(from, kReadThreads);
  fill_last<R>(memory.z, from + D, D + 4);
  for (int64_t first = span.first; first < span.end; first += kTile) {
    __syncthreads();
    x.store(task.x.map, memory.phi);
    x.x.store(memory.x);
    if (task.inverse) y.scale(scale);
    y.store(memory.y);
    if (thread < kTile) {
      memory.turn[thread] = turn.get();
      memory.column[thread] = column;
    }
    __syncthreads();
    if (first + kTile < span.end) load(first + kTile);
    const int64_t here = first + warp * 16;
    if (task.inverse) {
      mma::C values[D / 8] = {};
      times_sums<R, D>(values, own_phi, memory.sums);
      put_column<D>(own_column, values, own_y, task.inverse + token + here, span.end - here);
      if (lane < 16 && here + lane < span.end) task.column[token + here + lane] = own_column[lane];
    }
    put_gradient<R, D, kTurned>(own_x, own_y, memory.sums, memory.z, task.x.map, own_column,
                                memory.turn + warp * 16);
    write_rows<Memory::kWidth>(own_x, dx, here, span.end, task.x.width);
    if (task.queries) continue;
    mma::C dy[D / 8] = {};
    times_sums<R, D>(dy, own_phi, memory.sums);
    put_product<D>(own_y, dy, 1, 1);  // y was read by this warp alone
    write_rows<D>(own_y, rows_of(task.dy, span.b, span.h), here, span.end, task.depth);
  }
}

template <class Task>
dim3 blocks_of(const Task& task) {
  return {static_cast<unsigned>((task.x.tokens + task.span - 1) / task.span),
          static_cast<unsigned>(task.batch * task.heads)};
}
template <class Task>
Task with_span(Task task, int resident) {
  task.span = feature_span(task.x.tokens, task.batch * task.heads, resident);
  return task;
}

// Calls body with R, D and whether features are turned as constants.
template <class F>
void with_shape(const FeatureShape& shape, bool turned, const F& body) {
  if (shape.depth == 128)
    turned ? body.template operator()<256, 128, true>()
           : body.template operator()<128, 128, false>();
  else if (turned)
    body.template operator()<128, 64, true>();
  else if (shape.features == 64)
    body.template operator()<64, 64, false>();
  else if (shape.features == 128)
    body.template operator()<128, 64, false>();
  else
    body.template operator()<256, 64, false>();
}

}  // namespace

void feature_sums_cuda(const FeatureSums& task, void* stream) noexcept {
  if (task.shape.depth == kNarrow) return narrow_sums_cuda(task, stream);
  with_shape(task.shape, task.x.turns, [&]<int R, int D, bool kTurned>() {
    launch(form_sums<R, D, kTurned>, blocks_of(task), 32 * kSumWarps<R>, kSumBytes<R, D>, stream,
           task);
  });
}

void feature_fold_cuda(const FeatureFold& task, void* stream) noexcept {
  constexpr int64_t kThreads = 256, kMost = 1056;
  const int64_t blocks = (task.groups * task.size / 4 + kThreads - 1) / kThreads;
  launch(fold, static_cast<unsigned>(blocks < kMost ? blocks : kMost), kThreads, 0, stream, task);
}

void feature_read_cuda(const FeatureRead& given, void* stream) noexcept {
  if (given.shape.depth == kNarrow) return narrow_read_cuda(given, stream);
  with_shape(given.shape, given.x.turns, [&]<int R, int D, bool kTurned>() {
    const auto task = with_span(given, kReaders<R, D>);
    launch(read<R, D, kTurned>, blocks_of(task), kReadThreads, kReadBytes<R, D>, stream, task);
  });
}

void feature_gradient_cuda(const FeatureGradient& given, void* stream) noexcept {
  if (given.shape.depth == kNarrow) return narrow_gradient_cuda(given, stream);
  with_shape(given.shape, given.x.turns, [&]<int R, int D, bool kTurned>() {
    static_assert(GradientMemory<R, D, kTurned>::kBytes <= feature_memory({R, D}, kTurned, false));
    const auto task = with_span(given, kGradients<R, D, kTurned>);
    launch(gradient<R, D, kTurned>, blocks_of(task), kReadThreads,
           GradientMemory<R, D, kTurned>::kBytes, stream, task);
  });
}

}  // namespace longbow::kernels
