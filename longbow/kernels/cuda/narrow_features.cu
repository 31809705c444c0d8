// Heads of up to 32 channels, 16 tokens for each warp at a time. There is little to compute for a
// token, so its rows go from global memory to the registers of tensor cores, without shared memory
// and barriers in between.
#include "longbow/kernels/cuda/narrow_features.h"

#include "longbow/kernels/cuda/narrow_tiles.h"

namespace longbow::kernels {
namespace narrow {
namespace {

constexpr int kResident = 4;  // blocks on a multiprocessor
constexpr int kSumThreads = 128, kSumWarps = kSumThreads / 32;

template <int R>
constexpr size_t kSumBytes = sizeof(float) * kSumWarps* R* kRowWords;

// Each warp has sums of its own tokens, which are added up at the end, warp after warp.
template <int R>
__global__ void __launch_bounds__(kSumThreads, R == kWidth ? kResident : kResident - 1)
    form_sums(FeatureSums task) {
  constexpr bool kTurned = R > kWidth;
  unsigned char* const shared = dynamic_memory();
  auto* parts = reinterpret_cast<float*>(shared);
  const Span span = span_of(task);
  const Lane lane;
  const LaneRows x(task.x.x, span, 4 * lane.g, task.x.width),
      value(task.value, span, 4 * lane.g, task.depth);

  mma::C sums[R / 16][kTiles] = {}, beside[R / 16] = {};
  FourTokens<kTurned> next;
  next.load(task, span, x, value, lane.warp * 16);
#pragma unroll 1
  for (int first = lane.warp * 16; first < count_of(span); first += kTile) {
    mma::A phi[R / 16];
    mma::B values[kTiles];
    next.features(task.x.map, x.there, phi);
    next.values(task.scale, values);
    const mma::B last = next.columns();
    if (first + kTile < count_of(span)) next.load(task, span, x, value, first + kTile);
#pragma unroll
    for (int m = 0; m < R / 16; ++m) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) mma::multiply<Number>(sums[m][n], phi[m], values[n]);
      mma::multiply<Number>(beside[m], phi[m], last);
    }
  }

#pragma unroll
  for (int r = 0; r < R / 8; ++r) {  // features 4 g to 4 g + 3 of each 32, and channels from 8 t on
    const int m = r / 2, low = r % 2;
    float* row = parts + (lane.warp * R + r / 4 * kWidth + 4 * lane.g + r % 4) * kRowWords;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int part = 2 * low + i;
      *reinterpret_cast<float4*>(row + 8 * lane.t + 4 * i) = {
          sums[m][0].part[part], sums[m][1].part[part], sums[m][2].part[part],
          sums[m][3].part[part]};
    }
    if (lane.t == 0)
      *reinterpret_cast<float4*>(row + kWidth) = {
          beside[m].part[2 * low] + beside[m].part[2 * low + 1], 0, 0, 0};
  }
  __syncthreads();
  constexpr int kAll = R * kRowWords / 4;
  const auto* from = reinterpret_cast<const float4*>(parts);
  auto* to = reinterpret_cast<float4*>(task.sums) + (span.group * gridDim.x + blockIdx.x) * kAll;
  for (int i = static_cast<int>(threadIdx.x); i < kAll; i += kSumThreads) {
    float4 sum = from[i];
#pragma unroll
    for (int warp = 1; warp < kSumWarps; ++warp) {
      const float4 part = from[warp * kAll + i];
      sum = {sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w};
    }
    to[i] = sum;
  }
}

template <int R>
__global__ void __launch_bounds__(kReadThreads, kResident) read(FeatureRead task) {
  constexpr bool kTurned = R > kWidth;
  const Span span = span_of(task);
  const Lane lane;
  const LaneRows rows(task.x.x, span, 8 * lane.t, task.x.width),
      out(task.out, span, 8 * lane.t, task.depth);
  float* inverse = task.inverse + span.group * task.x.tokens + span.first;
  const int count = count_of(span);

  // Twice 16 tokens are on their way, since a pass over one tensor keeps memory less busy.
  FeatureRows<kTurned> next[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    next[i].load(task.x, rows, span, lane.warp * 16 + i * kTile, nullptr, nullptr);
  const NarrowSums<R> sums(dynamic_memory(), task.sums + span.group * R * kRowWords);
  mma::B z[R / 16];
#pragma unroll
  for (int k = 0; k < R / 16; ++k) z[k] = split_column(sums.z + k * 16);
#pragma unroll 1
  for (int from = lane.warp * 16; from < count; from += 2 * kTile)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int first = from + i * kTile;
      if (first >= count) break;
      mma::A phi[R / 16];
      next[i].settle();
      next[i].features(task.x.map, rows.there, phi);
      next[i].load(task.x, rows, span, first + 2 * kTile, nullptr, nullptr);
      mma::C values[kTiles] = {}, weights = {};
      sums.times(values, phi);
#pragma unroll
      for (int k = 0; k < R / 16; ++k) mma::multiply<Number>(weights, phi[k], z[k]);
      const auto divisor = divisors(weights, task);
      rows_with(values, divisor.factor[0], divisor.factor[1]).store(out, first, count);
      divisor.write(inverse, first, count);
    }
}

template <int R>
__global__ void __launch_bounds__(kReadThreads, kResident) gradient(FeatureGradient task) {
  constexpr bool kTurned = R > kWidth;
  const Span span = span_of(task);
  const Lane lane;
  const LaneRows rows_x(task.x.x, span, 8 * lane.t, task.x.width),
      rows_y(task.y, span, 8 * lane.t, task.depth), dx(task.dx, span, 8 * lane.t, task.x.width),
      dy(task.dy, span, 8 * lane.t, task.depth);
  const int count = count_of(span);

  float* columns = task.column + span.group * task.x.tokens + span.first;
  const float* given = task.queries && !task.inverse ? task.column : nullptr;
  FeatureRows<kTurned> next_x;
  TwoRows next_y;
  next_x.load(task.x, rows_x, span, lane.warp * 16, task.inverse, given);
  next_y.load(rows_y, lane.warp * 16, count);
  const NarrowSums<R> sums(dynamic_memory(), task.sums + span.group * R * kRowWords);
#pragma unroll 1
  for (int first = lane.warp * 16; first < count; first += kTile) {
    auto x = next_x;
    auto y = next_y;
    if (first + kTile < count) {
      next_x.load(task.x, rows_x, span, first + kTile, task.inverse, given);
      next_y.load(rows_y, first + kTile, count);
    }
    x.settle();
    float column[2] = {x.numbers.of(x.numbers.column, lane.g),
                       x.numbers.of(x.numbers.column, lane.g + 8)};
    if (task.inverse || !task.queries) {
      mma::A phi[R / 16];
      mma::C values[kTiles] = {};
      x.features(task.x.map, rows_x.there, phi);
      sums.times(values, phi);
      if (task.queries) {
        const float inverse[2] = {x.numbers.of(x.numbers.inverse, lane.g),
                                  x.numbers.of(x.numbers.inverse, lane.g + 8)};
        scale(y, inverse);
        find_columns(column, values, y, inverse);
#pragma unroll
        for (int low = 0; low < 2; ++low)
          if (const int n = first + TwoRows::row(low); lane.t == 0 && n < count)
            columns[n] = column[low];
      } else {
        rows_with(values, 1, 1).store(dy, first, count);
      }
    }
    mma::A a[2];
    y.put(a);
    float found[2][8] = {}, slopes[16];
#pragma unroll
    for (int half = 0; half < R / kWidth; ++half) {
      mma::C dphi[kTiles];
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          dphi[n].part[i] = column[i / 2] * sums.z[half * kWidth + n * 8 + 2 * lane.t + i % 2];
      sums.times_transposed(dphi, a, half * kWidth);
#pragma unroll
      for (int low = 0; low < 2; ++low)
#pragma unroll
        for (int i = 0; i < 8; ++i)
          found[low][i] +=
              dphi[i / 2].part[2 * low + i % 2] * (half == 0 ? x.turn[low].x : x.turn[low].y);
    }
    x.x.numbers(slopes);
    apply_slope(task.x.map, slopes);
#pragma unroll
    for (int low = 0; low < 2; ++low) {
#pragma unroll
      for (int i = 0; i < 8; ++i) found[low][i] *= slopes[8 * low + i];
      x.x.pack[low] = packed(found[low]);
    }
    x.x.store(dx, first, count);
  }
}

template <class Task>
dim3 blocks_of(const Task& task) {
  return {static_cast<unsigned>((task.x.tokens + task.span - 1) / task.span),
          static_cast<unsigned>(task.batch * task.heads)};
}
template <class Task>
Task with_span(Task task) {
  task.span = feature_span(task.x.tokens, task.batch * task.heads, kResident);
  return task;
}

// Calls body with R as a constant.
template <class F>
void with_features(const FeatureShape& shape, const F& body) {
  if (shape.features == kNarrow)
    body.template operator()<kWidth>();
  else
    body.template operator()<2 * kWidth>();
}

}  // namespace
}  // namespace narrow

using namespace narrow;

void narrow_sums_cuda(const FeatureSums& task, void* stream) noexcept {
  with_features(task.shape, [&]<int R>() {
    launch(form_sums<R>, blocks_of(task), kSumThreads, kSumBytes<R>, stream, task);
  });
}

void narrow_read_cuda(const FeatureRead& given, void* stream) noexcept {
  with_features(given.shape, [&]<int R>() {
    const auto task = with_span(given);
    launch(read<R>, blocks_of(task), kReadThreads, NarrowSums<R>::kBytes, stream, task);
  });
}

void narrow_gradient_cuda(const FeatureGradient& given, void* stream) noexcept {
  with_features(given.shape, [&]<int R>() {
    const auto task = with_span(given);
    launch(gradient<R>, blocks_of(task), kReadThreads, NarrowSums<R>::kBytes, stream, task);
  });
}

}  // namespace longbow::kernels
