// Features are never stored: a product of tensor cores leaves projections where the next product
// takes its left factor from, and the map is applied in between. Where sums are formed, a warp owns
// rows of S and meets all tokens; where they are read, it owns 16 tokens and meets all features.
#include "longbow/kernels/cuda/random_tiles.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 128;          // with 64 tokens at a time
constexpr int kGradientThreads = 256;  // with 128

template <RandomMap kMap>
constexpr int kSets = kMap == RandomMap::exponential ? 1 : 2;

size_t peak_bytes(const RandomPeaks& task) {
  return sizeof(Number) * static_cast<size_t>(task.shape.projections + kTile) * kStride +
         sizeof(float) * (3 * kTile + 4);
}

__global__ void __launch_bounds__(kThreads) find_peaks(RandomPeaks task) {
  unsigned char* const shared = dynamic_memory();
  const int rows = static_cast<int>(task.shape.projections);
  auto* omega = reinterpret_cast<Number*>(shared);
  auto* x = omega + rows * kStride;
  auto* numbers = reinterpret_cast<float*>(x + kTile * kStride);
  float* by_warp = numbers + 3 * kTile;
  const TokenNumbers tokens(numbers, kTile);
  const Span span = span_of(task);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32,
            g = lane / 4;
  float peak = -1e30f;

  TokenStage<RandomMap::exponential, kThreads> stage;
  stage.load(task.x, span, span.first);
  fill_matrix(omega, matrix_of(task.x.omega, task.x.omega_head, span), rows, kThreads);
  for (int64_t first = span.first; first < span.end; first += kTile) {
    __syncthreads();
    stage.store(task.x, 0, x, tokens);
    __syncthreads();
    if (first + kTile < span.end) stage.load(task.x, span, first + kTile);
    const Rows16 own(x + warp * 16 * kStride);
    const float offset[2] = {tokens.other[warp * 16 + g], tokens.other[warp * 16 + g + 8]};
    float most[2] = {-1e30f, -1e30f};
#pragma unroll 2
    for (int r = 0; r < rows; r += 16) {
      mma::C u[2] = {};
      own.times_transposed(u, omega + r * kStride);
      take_largest(most, u, static_cast<int>(task.x.projections) - r);
    }
    for (int low = 0; low < 2; ++low) peak = fmaxf(peak, most[low] * task.x.factor - offset[low]);
  }
  for (int other = 1; other < 32; other *= 2)
    peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, other));
  if (lane == 0) by_warp[warp] = peak;
  __syncthreads();
  if (threadIdx.x == 0)
    task.peaks[span.group * gridDim.x + blockIdx.x] =
        fmaxf(fmaxf(by_warp[0], by_warp[1]), fmaxf(by_warp[2], by_warp[3]));
}

// Tiles of 16 projections of each warp; in any case that makes two times 16 rows of S. Of the
// exponential map a block may have a warp more than those that fetch tokens.
template <RandomMap kMap>
constexpr int kSumTiles = 2 / kSets<kMap>;
template <RandomMap kMap>
constexpr int kSumThreads = kMap == RandomMap::exponential ? kThreads + 32 : kThreads;

size_t sum_bytes(int rows) {
  return sizeof(Number) * static_cast<size_t>(rows + 2 * kTile) * kStride +
         sizeof(float) * 4 * kTile;
}

template <RandomMap kMap>
__global__ void __launch_bounds__(kSumThreads<kMap>, 2) form_sums(RandomSums task) {
  constexpr int kTiles = kSumTiles<kMap>;
  const int threads = static_cast<int>(blockDim.x), block_rows = threads / 2 * kTiles;
  unsigned char* const shared = dynamic_memory();
  auto* omega = reinterpret_cast<Number*>(shared);
  auto* x = omega + block_rows * kStride;
  auto* values = x + kTile * kStride;
  auto* column = reinterpret_cast<float*>(values + kTile * kStride);
  const TokenNumbers tokens(column + kTile, kTile);
  const Span span = span_of(task);
  const HeadRows value = rows_of(task.value, span.b, span.h);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32,
            g = lane / 4, t = lane % 4;
  const int rows = static_cast<int>(task.shape.projections),
            base = static_cast<int>(blockIdx.z) * block_rows,
            own = base + warp * 16 * kTiles;  // the first of this warp
  const Number* const matrix = omega + (own - base) * kStride;
  const int64_t token = span.group * task.x.tokens;
  const float peak = peak_of(task.x, span.group);
  const bool fetches = thread < kThreads;

  mma::C sums[2][kDepth / 8] = {}, beside[2] = {};
  TokenStage<kMap, kThreads> stage;
  Stage<kDepth, kThreads> v;
  float scale = 1, number = 0;  // of the value's own_row(), and of the column
  const auto fetch = [&](int64_t first) {
    if (!fetches) return;
    stage.load(task.x, span, first);
    v.load(value, first, span.end, task.depth);
    if (task.scale) scale = v.scale_of(task.scale + token, first, span.end);
    const int64_t n = first + thread;
    number = thread >= kTile || n >= span.end ? 0 : task.column ? task.column[token + n] : 1;
  };
  fetch(span.first);
  fill_matrix(omega, matrix_of(task.x.omega, task.x.omega_head, span) + base * kDepth,
              rows - base < block_rows ? rows - base : block_rows, threads);
  for (int64_t first = span.first; first < span.end; first += kTile) {
    __syncthreads();
    if (fetches) {
      stage.store(task.x, peak, x, tokens);
      if (task.scale) v.scale(scale);
      v.store(values);
      if (thread < kTile) column[thread] = number;
    }
    __syncthreads();
    if (first + kTile < span.end) fetch(first + kTile);
    if (own >= rows) continue;
#pragma unroll 1
    for (int k = 0; k < kTile; k += 16) {
      mma::C u[kTiles][2] = {}, phi[2][2];
      float factor[2][2], other[2][2];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = k + i / 2 * 8 + 2 * t + i % 2;
        factor[i / 2][i % 2] =
            for_map<kMap>(kMap == RandomMap::trigonometric ? tokens.factor[at] : task.x.factor);
        other[i / 2][i % 2] = for_map<kMap>(tokens.other[at]);
      }
#pragma unroll
      for (int d = 0; d < kDepth / 16; ++d) {
        const mma::TwoB b = mma::b_of_columns(x + k * kStride + d * 16, kStride);
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          const mma::A a = mma::a_of_rows(matrix + m * 16 * kStride + d * 16, kStride);
          mma::multiply<Number>(u[m][0], a, b.tile[0]);
          mma::multiply<Number>(u[m][1], a, b.tile[1]);
        }
      }
#pragma unroll
      for (int m = 0; m < kTiles; ++m)
#pragma unroll
        for (int i = 0; i < 8; ++i) {  // here a projection is a row, and a token a column
          const int n = i / 4;
          const float2 both = feature<kMap>(u[m][n].part[i % 4], factor[n][i % 2], other[n][i % 2]);
          phi[m][n].part[i % 4] = both.x;
          if (kTiles == 1) phi[1][n].part[i % 4] = both.y;
        }
      if (own + 16 * kTiles > task.x.projections)
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const int row = own + (kTiles == 1 ? 0 : i / 8 * 16) + g + i % 4 / 2 * 8;
          if (row >= task.x.projections) phi[i / 8][i / 4 % 2].part[i % 4] = 0;
        }
      const mma::A a[2] = {mma::a_of<Number>(phi[0][0], phi[0][1]),
                           mma::a_of<Number>(phi[1][0], phi[1][1])};
      const mma::B last = split_column(column + k);
      mma::multiply<Number>(beside[0], a[0], last);
      mma::multiply<Number>(beside[1], a[1], last);
      times_rows<2>({&sums[0], &sums[1]}, a, values + k * kStride);
    }
  }

  const int last = task.rounded ? kDepth / 2 : kDepth;  // where the column is
  float* out = task.sums + (span.group * gridDim.x + blockIdx.x) * kSets<kMap> * rows * (last + 4);
#pragma unroll
  for (int set = 0; set < 2; ++set) {
    const int row = own + (kTiles == 2 ? set * 16 : 0);
    if (row >= rows) continue;
    float* upper = out + ((kTiles == 2 ? 0 : set * rows) + row + g) * (last + 4);
    float* lower = upper + 8 * (last + 4);
#pragma unroll
    for (int n = 0; n < kDepth / 8; ++n) {
      const auto& c = sums[set][n].part;
      if (task.rounded) {
        reinterpret_cast<uint32_t*>(upper)[n * 4 + t] = mma::pack<Number>(c[0], c[1]);
        reinterpret_cast<uint32_t*>(lower)[n * 4 + t] = mma::pack<Number>(c[2], c[3]);
      } else {
        *reinterpret_cast<float2*>(upper + n * 8 + 2 * t) = {c[0], c[1]};
        *reinterpret_cast<float2*>(lower + n * 8 + 2 * t) = {c[2], c[3]};
      }
    }
    if (t > 0) continue;
    const auto& c = beside[set].part;
    *reinterpret_cast<float4*>(upper + last) = {c[0] + c[1], 0, 0, 0};
    *reinterpret_cast<float4*>(lower + last) = {c[2] + c[3], 0, 0, 0};
  }
}

template <RandomMap kMap>
size_t read_bytes(const RandomRead& task) {
  const auto rows = static_cast<size_t>(task.shape.projections);
  return sizeof(Number) * (rows * (1 + kSets<kMap>)+kTile) * kStride +
         sizeof(float) * (rows * kSets<kMap> + 3 * kTile);
}

template <RandomMap kMap>
__global__ void __launch_bounds__(kThreads) read(RandomRead task) {
  unsigned char* const shared = dynamic_memory();
  const int rows = static_cast<int>(task.shape.projections);
  auto* omega = reinterpret_cast<Number*>(shared);
  auto* sums = omega + rows * kStride;
  auto* tile = sums + kSets<kMap> * rows * kStride;
  auto* z = reinterpret_cast<float*>(tile + kTile * kStride);
  const TokenNumbers tokens(z + kSets<kMap> * rows, kTile);
  const Span span = span_of(task);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32,
            g = lane / 4, t = lane % 4;
  const float least = task.least_of ? task.least_of[span.b] : task.least;
  auto* own = tile + warp * 16 * kStride;

  TokenStage<kMap, kThreads> stage;
  stage.load(task.x, span, span.first);
  fill_matrix(omega, matrix_of(task.x.omega, task.x.omega_head, span), rows, kThreads);
  fill_sums(sums, nullptr, z, task.sums + span.group * kSets<kMap> * rows * (kDepth + 4),
            kSets<kMap> * rows, kThreads);
  for (int64_t first = span.first; first < span.end; first += kTile) {
    __syncthreads();
    stage.store(task.x, 0, tile, tokens);
    __syncthreads();
    if (first + kTile < span.end) stage.load(task.x, span, first + kTile);
    const Rows16 x(own);
    const int row = warp * 16 + g;
    const float factor[2] = {for_map<kMap>(tokens.factor[row]),
                             for_map<kMap>(tokens.factor[row + 8])};
    float other[2] = {tokens.other[row], tokens.other[row + 8]};
    const int64_t n = first + row, token = span.group * task.x.tokens + n;
    if constexpr (kMap == RandomMap::exponential) {
      float most[2] = {-1e30f, -1e30f};
#pragma unroll 2
      for (int r = 0; r < rows; r += 16) {
        mma::C u[2] = {};
        x.times_transposed(u, omega + r * kStride);
        take_largest(most, u, static_cast<int>(task.x.projections) - r);
      }
#pragma unroll
      for (int low = 0; low < 2; ++low) {
        most[low] = fmaxf(most[low], __shfl_xor_sync(0xffffffffu, most[low], 1));
        most[low] = fmaxf(most[low], __shfl_xor_sync(0xffffffffu, most[low], 2));
        other[low] = most[low] * factor[low];
        if (t == 0 && n + 8 * low < span.end)
          task.offset[token + 8 * low] = most[low] * task.x.factor;
      }
    }
    mma::C values[kDepth / 8] = {}, weights = {};
#pragma unroll 2
    for (int r = 0; r < rows; r += 16) {
      mma::C phi[2][2] = {};
      x.times_transposed(phi[0], omega + r * kStride);
      apply_map<kMap>(phi, factor, other, static_cast<int>(task.x.projections) - r);
#pragma unroll
      for (int set = 0; set < kSets<kMap>; ++set) {
        const mma::A a = mma::a_of<Number>(phi[set][0], phi[set][1]);
        mma::multiply<Number>(weights, a, split_column(z + set * rows + r));
        times_rows<1>({&values}, {a}, sums + (set * rows + r) * kStride);
      }
    }
    const float w[2] = {__shfl_sync(0xffffffffu, weights.part[0] + weights.part[1], lane & ~3),
                        __shfl_sync(0xffffffffu, weights.part[2] + weights.part[3], lane & ~3)};
    const bool divided[2] = {w[0] >= least, w[1] >= least};
    const float inverse[2] = {1 / (divided[0] ? w[0] : least), 1 / (divided[1] ? w[1] : least)};
    __syncwarp();
    put_product<kDepth>(own, values, inverse[0], inverse[1]);
    write_rows<kDepth>(own, rows_of(task.out, span.b, span.h), first + warp * 16, span.end,
                       task.depth);
    if (t > 0) continue;
    for (int low = 0; low < 2; ++low)
      if (n + 8 * low < span.end)
        task.inverse[token + 8 * low] = divided[low] ? inverse[low] : -inverse[low];
  }
}

// Tables and tiles of the backward pass.
template <RandomMap kMap>
struct GradientMemory {
  static constexpr int kTokens = kGradientThreads / 2;
  Number *omega, *back, *high, *low, *x, *y;  // [P, D] twice, [R, D] twice, [128, D] twice
  float *z, *sigma, *dsigma;                  // [R], [D], [8, D]
  TokenNumbers tokens;

  __host__ static constexpr size_t bytes(const RandomShape& shape) {
    const auto rows = static_cast<size_t>(shape.projections);
    return sizeof(Number) * (3 * rows * kSets<kMap> + 2 * kTokens) * kStride +
           sizeof(float) * (rows * kSets<kMap> + 9 * kDepth + 3 * kTokens);
  }
  static_assert(bytes({16, kSets<kMap>}) <= random_memory({16, kSets<kMap>}) &&
                bytes({192, kSets<kMap>}) <= random_memory({192, kSets<kMap>}));
  // Of the trigonometric map the matrix of the way back is another.
  __device__ GradientMemory(unsigned char* shared, int rows)
      : omega(reinterpret_cast<Number*>(shared)),
        back(omega + (kSets<kMap> - 1) * rows * kStride),
        high(back + rows * kStride),
        low(high + kSets<kMap> * rows * kStride),
        x(low + kSets<kMap> * rows * kStride),
        y(x + kTokens * kStride),
        z(reinterpret_cast<float*>(y + kTokens * kStride)),
        sigma(z + kSets<kMap> * rows),
        dsigma(sigma + kDepth),
        tokens(dsigma + 8 * kDepth, kTokens) {}
};

// With a = S y the gradient of f u is t + column t', t = phi' a and t' = phi' z, where phi' is the
// slope of phi, and the column of a query is -(phi . a) / (phi . z). Both parts are projected back
// as sums of two numbers each, because a query that meets one feature alone has t = -column t'.
template <RandomMap kMap>
__global__ void __launch_bounds__(kGradientThreads) gradient(RandomGradient task) {
  constexpr int kCount = kGradientThreads;
  using Memory = GradientMemory<kMap>;
  unsigned char* const shared = dynamic_memory();
  const int rows = static_cast<int>(task.shape.projections);
  const Memory memory(shared, rows);
  const Span span = span_of(task);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32,
            g = lane / 4, t = lane % 4, row = warp * 16;
  const bool queries = task.inverse;
  const float peak = peak_of(task.x, span.group);
  const HeadRows rows_y = rows_of(task.y, span.b, span.h);
  const int64_t token = span.group * task.x.tokens;
  Number *own_x = memory.x + row * kStride, *own_y = memory.y + row * kStride;

  TokenStage<kMap, kCount> stage;
  Stage<kDepth, kCount, Memory::kTokens> y;
  stage.load(task.x, span, span.first);
  y.load(rows_y, span.first, span.end, task.depth);
  fill_matrix(memory.omega, matrix_of(task.x.omega, task.x.omega_head, span), rows, kCount);
  if (kMap == RandomMap::trigonometric)
    fill_matrix(memory.back, matrix_of(task.back, task.x.omega_head, span), rows, kCount);
  fill_sums(memory.high, memory.low, memory.z,
            task.sums + span.group * kSets<kMap> * rows * (kDepth + 4), kSets<kMap> * rows, kCount);
  if (kMap == RandomMap::trigonometric)
    for (int d = thread; d < kDepth; d += kCount) memory.sigma[d] = task.sigma[span.h * kDepth + d];
  float dsigma[kDepth / 8][2] = {};
  for (int64_t first = span.first; first < span.end; first += Memory::kTokens) {
    __syncthreads();
    stage.store(task.x, peak, memory.x, memory.tokens);
    if (queries) y.scale(task.inverse + token, first, span.end);
    y.store(memory.y);
    __syncthreads();
    if (first + Memory::kTokens < span.end) {
      stage.load(task.x, span, first + Memory::kTokens);
      y.load(rows_y, first + Memory::kTokens, span.end, task.depth);
    }
    const Rows16 x(own_x), slopes(own_y);
    const auto& tokens = memory.tokens;
    const float factor[2] = {for_map<kMap>(tokens.factor[row + g]),
                             for_map<kMap>(tokens.factor[row + g + 8])},
                other[2] = {for_map<kMap>(tokens.other[row + g]),
                            for_map<kMap>(tokens.other[row + g + 8])};
    // Of queries the projected t and t'; of keys t + t' and dy.
    mma::C du[kDepth / 8] = {}, more[kDepth / 8] = {};
    float sums[2] = {}, with_a[2] = {}, with_z[2] = {};  // of t + t', phi a, phi z, row by row
#pragma unroll 1
    for (int r = 0; r < rows; r += 16) {
      mma::C phi[2][2] = {}, a[2][2] = {}, with[2][2];  // t and t', 8 projections beside 8
      x.times_transposed(phi[0], memory.omega + r * kStride);
      apply_map<kMap>(phi, factor, other, static_cast<int>(task.x.projections) - r);
#pragma unroll
      for (int set = 0; set < kSets<kMap>; ++set) {
        slopes.times_transposed(a[set], memory.high + (set * rows + r) * kStride);
        slopes.times_transposed(a[set], memory.low + (set * rows + r) * kStride);
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int n = i / 4, at = i % 4;
        const float* z = memory.z + r + n * 8 + 2 * t + at % 2;
        const float first_phi = phi[0][n].part[at], first_a = a[0][n].part[at];
        float &plain = with[0][n].part[at], &beside = with[1][n].part[at];
        if constexpr (kMap == RandomMap::exponential) {
          plain = first_phi * first_a;
          beside = first_phi * z[0];
          with_a[at / 2] += plain;
          with_z[at / 2] += beside;
        } else {
          const float cosine = phi[1][n].part[at], second_a = a[1][n].part[at];
          plain = cosine * first_a - first_phi * second_a;
          beside = cosine * z[0] - first_phi * z[rows];
          with_a[at / 2] += first_phi * first_a + cosine * second_a;
          with_z[at / 2] += first_phi * z[0] + cosine * z[rows];
        }
        if (!queries) plain += beside;
        sums[at / 2] += plain;
      }
      const mma::A top = mma::a_of<Number>(with[0][0], with[0][1]);
      if (queries) {
        const mma::A second = mma::a_of<Number>(with[1][0], with[1][1]);
        times_rows<4>({&du, &du, &more, &more},
                      {top, rest_of(with[0], top), second, rest_of(with[1], second)},
                      memory.back + r * kStride);
      } else {
        times_rows<1>({&du}, {top}, memory.back + r * kStride);
#pragma unroll
        for (int set = 0; set < kSets<kMap>; ++set)
          times_rows<1>({&more}, {mma::a_of<Number>(phi[set][0], phi[set][1])},
                        memory.high + (set * rows + r) * kStride);
      }
    }
    const int64_t here = first + row;
#pragma unroll
    for (int low = 0; low < 2; ++low) {
      for (float* sum : {sums + low, with_a + low, with_z + low}) {
        *sum += __shfl_xor_sync(0xffffffffu, *sum, 1);
        *sum += __shfl_xor_sync(0xffffffffu, *sum, 2);
      }
      if (!queries) continue;
      const int64_t n = here + g + 8 * low;
      const bool divided = n < span.end && task.inverse[token + n] > 0;
      const float column = divided ? -with_a[low] / with_z[low] : 0;
      if (t == 0 && n < span.end) task.column[token + n] = column;
#pragma unroll
      for (int d = 0; d < kDepth / 8; ++d) {
        du[d].part[2 * low] += column * more[d].part[2 * low];
        du[d].part[2 * low + 1] += column * more[d].part[2 * low + 1];
      }
    }
    __syncwarp();
    if constexpr (kMap == RandomMap::exponential)
      put_exponents(own_x, own_x, du, sums, queries, task.x.factor);
    else
      put_angles(own_x, du, memory.sigma, tokens, row, dsigma);
    write_rows<kDepth>(own_x, rows_of(task.dx, span.b, span.h), here, span.end, task.x.width);
    if (queries) continue;
    put_product<kDepth>(own_y, more, 1, 1);
    write_rows<kDepth>(own_y, rows_of(task.dy, span.b, span.h), here, span.end, task.depth);
  }
  if constexpr (kMap == RandomMap::trigonometric)
    add_up<kCount / 32>(dsigma, memory.dsigma,
                        task.dsigma + (span.group * gridDim.x + blockIdx.x) * kDepth);
}

template <class Task>
dim3 blocks_of(const Task& task) {
  return {static_cast<unsigned>((task.x.tokens + task.span - 1) / task.span),
          static_cast<unsigned>(task.batch * task.heads)};
}

// Calls body with the map as a constant; mirrored features are read elsewhere.
template <class F>
void with_map(RandomMap map, const F& body) {
  if (map == RandomMap::exponential)
    body.template operator()<RandomMap::exponential>();
  else
    body.template operator()<RandomMap::trigonometric>();
}

}  // namespace

void random_peaks_cuda(const RandomPeaks& task, void* stream) noexcept {
  launch(find_peaks, blocks_of(task), kThreads, peak_bytes(task), stream, task);
}

void random_sums_cuda(const RandomSums& task, void* stream) noexcept {
  const auto form = [&]<RandomMap kMap>() {
    auto blocks = blocks_of(task);
    constexpr int64_t kWarpRows = 16 * kSumTiles<kMap>;
    const int64_t warps = (task.shape.projections + kWarpRows - 1) / kWarpRows,
                  most = kSumThreads<kMap> / 32;
    blocks.z = static_cast<unsigned>((warps + most - 1) / most);
    const unsigned threads = warps > blocks.z * (kThreads / 32) ? kSumThreads<kMap> : kThreads;
    launch(form_sums<kMap>, blocks, threads, sum_bytes(static_cast<int>(threads / 32 * kWarpRows)),
           stream, task);
  };
  if (task.x.map == RandomMap::mirrored) return form.template operator()<RandomMap::mirrored>();
  with_map(task.x.map, form);
}

void random_read_cuda(const RandomRead& task, void* stream) noexcept {
  with_map(task.x.map, [&]<RandomMap kMap>() {
    launch(read<kMap>, blocks_of(task), kThreads, read_bytes<kMap>(task), stream, task);
  });
}

void random_gradient_cuda(const RandomGradient& task, void* stream) noexcept {
  with_map(task.x.map, [&]<RandomMap kMap>() {
    launch(gradient<kMap>, blocks_of(task), kGradientThreads,
           GradientMemory<kMap>::bytes(task.shape), stream, task);
  });
}

}  // namespace longbow::kernels
