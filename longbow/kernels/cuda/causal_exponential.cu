// The sums of spans under a causal mask, and what queries read of them and of their own span.
#include "longbow/kernels/cuda/exponential_tiles.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels {
namespace {

using namespace exponential;

size_t peak_bytes(const ExponentialPeaks& task) {
  return sizeof(Number) * static_cast<size_t>(task.shape.projections + kSpan) * kStride +
         sizeof(float) * (3 * kSpan + kWarps);
}

__global__ void __launch_bounds__(kThreads) find_peaks(ExponentialPeaks task) {
  unsigned char* const shared = dynamic_memory();
  const int rows = static_cast<int>(task.shape.projections);
  const bool queries = blockIdx.z == 0, mirrored = task.q.map == RandomMap::mirrored;
  const RandomFeatures& from = queries ? task.q : task.k;
  auto* omega = reinterpret_cast<Number*>(shared);
  auto* x = omega + rows * kStride;
  auto* numbers = reinterpret_cast<float*>(x + kSpan * kStride);
  float* by_warp = numbers + 3 * kSpan;
  const TokenNumbers tokens(numbers, kSpan);
  const int64_t group = blockIdx.y, first = blockIdx.x * int64_t{kSpan};
  const Span span = {group, group / task.heads, group % task.heads, first,
                     first + kSpan < from.tokens ? first + kSpan : from.tokens};
  const Lane at;

  Tokens stage;
  stage.load(from, span, first);
  fill_matrix(omega, matrix_of(from.omega, from.omega_head, span), rows, kThreads);
  stage.store(from, 0, x, tokens);
  __syncthreads();
  const Rows16 own(x + at.warp * 16 * kStride);
  float most[2] = {kNothing, kNothing};
#pragma unroll 2
  for (int r = 0; r < rows; r += 16) {
    mma::C u[2] = {};
    own.times_transposed(u, omega + r * kStride);
    take_largest(most, u, static_cast<int>(from.projections) - r, mirrored);
  }
  float peak[2];
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    most[low] = fmaxf(most[low], __shfl_xor_sync(0xffffffffu, most[low], 1));
    most[low] = fmaxf(most[low], __shfl_xor_sync(0xffffffffu, most[low], 2)) * from.factor;
    // Without features where the token is not kept: |x|^2 then counts as infinite.
    const float half = tokens.other[at.row + 8 * low];
    peak[low] = half < INFINITY ? fmaxf(most[low] - half, kNothing) : kNothing;
  }
  float whole = fmaxf(peak[0], peak[1]);
  for (int other = 4; other < 32; other *= 2)
    whole = fmaxf(whole, __shfl_xor_sync(0xffffffffu, whole, other));
  if (at.lane == 0) by_warp[at.warp] = whole;
  __syncthreads();
  for (int warp = 0; warp < kWarps; ++warp) whole = fmaxf(whole, by_warp[warp]);
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    const int64_t n = first + at.row + 8 * low, to = group * from.tokens + n;
    if (at.t > 0 || n >= span.end) continue;
    if (queries) task.query_offset[to] = most[low];
    if (queries || !task.peaks) continue;
    task.key_offset[to] = most[low];
    task.peaks[to] = peak[low];
    task.sum_offset[to] = tokens.other[at.row + 8 * low] + whole;
  }
  if (!queries && threadIdx.x == 0) task.span_peaks[group * gridDim.x + blockIdx.x] = whole;
}

// A thread has four neighbours of a row of sums, or the number beside them, of all spans; some are
// read ahead.
__global__ void __launch_bounds__(kThreads, 4) fold(ExponentialFold task) {
  constexpr int kPacks = kDepth / 4 + 1, kAhead = 8;
  const int64_t size = task.projections * kPacks, all = task.groups * size,
                i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= all) return;
  const int64_t group = i / size, row = i % size / kPacks;
  const int pack = static_cast<int>(i % kPacks), spans = static_cast<int>(task.spans),
            step = task.before ? -1 : 1;
  const bool beside = pack == kDepth / 4;
  int64_t span = group * spans + (task.before ? spans - 1 : 0);  // that is read next
  float4 sum = {0, 0, 0, 0};
  float most = kNothing;
  for (int begin = 0; begin < spans; begin += kAhead) {
    const int count = spans - begin < kAhead ? spans - begin : kAhead;
    uint2 ahead[kAhead];  // the number beside is of float32
    float peaks[kAhead], befores[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int64_t from = span + (n < count ? n : 0) * step;
      ahead[n] = reinterpret_cast<const uint2*>(task.from + (from * task.projections + row) *
                                                                (kDepth / 2 + 4))[pack];
      peaks[n] = task.span_peaks[from];
      befores[n] = task.before ? task.before[from] : 0;
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (n >= count) break;
      const float2 left = mma::unpack<Number>(ahead[n].x), right = mma::unpack<Number>(ahead[n].y);
      float4 next = {left.x, left.y, right.x, right.y};
      if (beside) next = {__uint_as_float(ahead[n].x), 0, 0, 0};
      const float peak = peaks[n], before = task.before ? befores[n] : most;
      most = fmaxf(before, peak);  // c of the next span
      const float now = task.before ? __expf(peak - most) : 1, old = __expf(before - most),
                  added = task.before ? 1 : __expf(peak - most);
      const int64_t place = (span + n * step) * task.projections + row;
      if (beside)
        task.beside[place] = sum.x * now;
      else
        *reinterpret_cast<uint2*>(static_cast<Number*>(task.sums) + place * kDepth + pack * 4) = {
            mma::pack<Number>(sum.x * now, sum.y * now),
            mma::pack<Number>(sum.z * now, sum.w * now)};
      sum = {sum.x * old + next.x * added, sum.y * old + next.y * added,
             sum.z * old + next.z * added, sum.w * old + next.w * added};
    }
    span += kAhead * step;
  }
}

// The largest peak up to each token of the span, among those of its warp; and what find_most needs.
__device__ float scan_peaks(const Block& block) {
  const auto& task = block.task;
  const Lane at;
  const int thread = static_cast<int>(threadIdx.x);
  float before = kNothing, most = kNothing;
  for (int s = thread; s < static_cast<int>(blockIdx.x); s += kThreads)
    before = fmaxf(before, task.span_peaks[block.span.group * block.spans + s]);
  if (thread < kSpan && block.span.first + thread < block.span.end)
    most = task.peaks[block.token + block.span.first + thread];
#pragma unroll
  for (int other = 1; other < 32; other *= 2) {
    before = fmaxf(before, __shfl_xor_sync(0xffffffffu, before, other));
    const float earlier = __shfl_sync(0xffffffffu, most, (at.lane - other) & 31);
    if (at.lane >= other) most = fmaxf(most, earlier);
  }
  if (at.lane == 0) block.memory.column[at.warp] = before;
  if (at.lane == 31) block.memory.column[kWarps + at.warp] = most;
  return most;
}
// c, and m of the tokens of the span, which are kept; INFINITY behind its end.
__device__ float find_most(const Block& block, float most, float* sum_offset) {
  const auto& task = block.task;
  const auto& memory = block.memory;
  const int thread = static_cast<int>(threadIdx.x);
  float before = kNothing;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) before = fmaxf(before, memory.column[warp]);
  if (thread == 0) task.before[block.span_at()] = before;
  if (thread < kSpan) {
    const int64_t n = block.span.first + thread, end = block.span.end;
    most = fmaxf(most, before);
    for (int warp = 0; warp < thread / 32; ++warp) most = fmaxf(most, memory.column[kWarps + warp]);
    memory.most[thread] = n < end ? most * kLog2E : INFINITY;
    if (n < end) {
      task.most[block.token + n] = most;
      sum_offset[block.token + n] = task.q.offset[block.token + n] + (most - before);
    }
  }
  __syncthreads();
  return exponent_of_two(before);
}

// What the weights of this warp's queries leave out, for the rows g and g + 8: the largest
// exponent, |x|^2 / 2 and the number of features.
__device__ void find_logs(float (&logs)[2], const Block& block, const Number* x) {
  const Lane at;
  const auto& memory = block.memory;
  const float factor = block.task.q.factor;
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    float square = 0;
#pragma unroll
    for (int d = 0; d < kDepth; d += 8) {
      const float2 two = mma::unpack<Number>(
          *reinterpret_cast<const uint32_t*>(x + (at.g + 8 * low) * kStride + d + 2 * at.t));
      square += two.x * two.x + two.y * two.y;
    }
    over_lanes(square);
    const int row = at.row + 8 * low;
    logs[low] = (memory.most[row] + memory.query_offset[row]) / kLog2E -
                factor * factor * square / 2 - logf(static_cast<float>(block.task.q.projections));
  }
}

// The pairs of a span under the mask are 36 tiles of 16 queries and 16 keys. Warps of its later
// half have the last five of their queries; the others have all of theirs, and those that are left.
struct PairTiles {
  static constexpr int kMost = 5;
  int warp = static_cast<int>(threadIdx.x) / 32, other = kWarps - 1 - warp;
  bool later = warp >= kWarps / 2;

  __device__ bool there(int n) const { return later || n < kMost - 1; }
  __device__ bool own(int n) const { return later || n <= warp; }
  __device__ int keys(int n) const { return later ? other_count() + n : own(n) ? n : n - warp - 1; }
  // Of queries of the later half: the tiles that another warp has, and where it leaves them.
  __device__ int other_count() const { return later ? warp - kWarps / 2 : 0; }
  __device__ static float4* place(void* room, int queries, int n) {
    const int before = queries - kWarps / 2, lane = static_cast<int>(threadIdx.x) % 32;
    return static_cast<float4*>(room) + (before * (before - 1) / 2 + n) * 64 + lane;
  }

  // pairs += phi of queries times phi of keys, of 16 features.
  __device__ __forceinline__ void add(mma::C (&pairs)[2 * kMost], const mma::A& phi,
                                      const Number* lent, const Number* all) const {
    mma::A others = phi;
    if (!later)
      others = mma::a_of_rows(lent + (other - kWarps / 2) * 16 * kStepStride, kStepStride);
#pragma unroll
    for (int n = 0; n < kMost; ++n) {
      if (!there(n)) continue;
      const mma::TwoB b = mma::b_of_columns(all + keys(n) * 16 * kStepStride, kStepStride);
      mma::A a;
#pragma unroll
      for (int i = 0; i < 4; ++i) a.part[i] = own(n) ? phi.part[i] : others.part[i];
      mma::multiply<Number>(pairs[2 * n], a, b.tile[0]);
      mma::multiply<Number>(pairs[2 * n + 1], a, b.tile[1]);
    }
  }
  // Weighs all, leaves those of others' queries and returns when all are there.
  __device__ __forceinline__ void weigh_and_lend(mma::C (&pairs)[2 * kMost],
                                                 const Memory& memory) const {
    const Lane at;
#pragma unroll
    for (int n = 0; n < kMost; ++n) {
      if (!there(n)) continue;
      const int queries = own(n) ? warp : other;
      const float most[2] = {memory.most[queries * 16 + at.g],
                             memory.most[queries * 16 + at.g + 8]};
      weigh<false>(pairs + 2 * n, keys(n), most, memory.peaks, queries);
      if (own(n)) continue;
      float4* to = place(memory.phi, other, keys(n));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const auto& part = pairs[2 * n + i].part;
        to[32 * i] = {part[0], part[1], part[2], part[3]};
      }
    }
    __syncthreads();
  }
  // use(pairs, keys) for the tiles of this warp's own queries.
  template <class F>
  __device__ __forceinline__ void each(const mma::C (&pairs)[2 * kMost], const Memory& memory,
                                       const F& use) const {
#pragma unroll 1
    for (int n = 0; n < other_count(); ++n) {
      const float4 *from = place(memory.phi, warp, n), left = from[0], right = from[32];
      const mma::C both[2] = {{{left.x, left.y, left.z, left.w}},
                              {{right.x, right.y, right.z, right.w}}};
      use(both, n);
    }
#pragma unroll
    for (int n = 0; n < kMost; ++n)
      if (there(n) && own(n)) use(pairs + 2 * n, keys(n));
  }
};

__global__ void __launch_bounds__(kThreads, 2) read(CausalExponentialRead given) {
  const auto& task = given.all;
  const Memory memory(dynamic_memory());
  const Block block(task, memory);
  const Lane at;
  block.start_tokens();
  block.put_offsets();
  const float scanned = scan_peaks(block);
  block.await();
  const float before = find_most(block, scanned, given.sum_offset);
  const float most[2] = {memory.most[at.row], memory.most[at.row + 8]};
  Number* own = memory.q + at.warp * 16 * kStride;

  const PairTiles tiles;
  mma::C values[kDepth / 8] = {}, weights = {}, pairs[2 * PairTiles::kMost] = {};
  Number* const lent = memory.g;  // which is free here
  block.each_step(
      block.queries(), block.keys(),
      [&](const mma::A& phi, const Number*, const Number* sums, const float* z, const Number* keys,
          int slot) {
        mma::multiply<Number>(weights, phi, split_column(z));
        times_rows<1>({&values}, {phi}, sums);
        tiles.add(pairs, phi, lent + slot * (kSpan / 2) * kStepStride, keys);
      },
      lent);
  tiles.weigh_and_lend(pairs, memory);
  float weight[2];
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    const float past = mma::power_of_two(before - most[low]);
    weight[low] = at.t == 0 ? past * (weights.part[2 * low] + weights.part[2 * low + 1]) : 0;
#pragma unroll
    for (int n = 0; n < kDepth / 8; ++n) {
      values[n].part[2 * low] *= past;
      values[n].part[2 * low + 1] *= past;
    }
  }
  tiles.each(pairs, memory, [&](const mma::C* tile, int n) {
    for (int i = 0; i < 8; ++i) weight[i % 4 / 2] += tile[i / 4].part[i % 4];
    const mma::A a = mma::a_of<Number>(tile[0], tile[1]);
    block.pairs(at.warp, n)[at.lane] = {a.part[0], a.part[1], a.part[2], a.part[3]};
    times_rows<1>({&values}, {a}, memory.v + n * 16 * kStride);
    times_rows<1>({&values}, {rest_of(tile, a)}, memory.v + n * 16 * kStride);
  });
  over_lanes(weight[0]);
  over_lanes(weight[1]);
  Divisors divisor;
  float logs[2];
  if (given.log_sum) find_logs(logs, block, own);
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    const int64_t n = block.span.first + at.row + 8 * low;
    const float least = given.least_of && n < block.span.end
                            ? given.least_of[block.span.b * task.q.tokens + n]
                            : given.least;
    const bool divided = weight[low] >= least;
    divisor.factor[low] = 1 / (divided ? weight[low] : least);
    divisor.kept[low] = divided ? divisor.factor[low] : -divisor.factor[low];
    if (given.log_sum && at.t == 0 && n < block.span.end)
      given.log_sum[block.token + n] = divided ? logs[low] + logf(weight[low]) : -INFINITY;
  }
  const int64_t here = block.span.first + at.warp * 16;
  put_exact(task.exact + (block.token + here) * kDepth, values, divisor.factor,
            block.span.end - here);
  __syncwarp();
  put_product<kDepth>(own, values, divisor.factor[0], divisor.factor[1]);
  write_rows<kDepth>(own, rows_of(given.out, block.span.b, block.span.h), here, block.span.end,
                     task.depth);
  divisor.write(task.inverse + block.token, here, block.span.end);
}

// Queries and keys.
dim3 peak_blocks(const ExponentialPeaks& task) {
  return {static_cast<unsigned>((task.k.tokens + kSpan - 1) / kSpan),
          static_cast<unsigned>(task.groups), 2};
}

}  // namespace

bool causal_exponential_fits() noexcept {
  static const bool fits = static_cast<size_t>(most_dynamic_memory()) >= Memory::kBytes;
  return fits;
}

void exponential_peaks_cuda(const ExponentialPeaks& task, void* stream) noexcept {
  launch(find_peaks, peak_blocks(task), kThreads, peak_bytes(task), stream, task);
}

void exponential_fold_cuda(const ExponentialFold& task, void* stream) noexcept {
  const int64_t all = task.groups * task.projections * (kDepth / 4 + 1);
  launch(fold, static_cast<unsigned>((all + kThreads - 1) / kThreads), kThreads, 0, stream, task);
}

void causal_exponential_read_cuda(const CausalExponentialRead& task, void* stream) noexcept {
  launch(read, blocks_of(task.all), kThreads, Memory::kBytes, stream, task);
}

}  // namespace longbow::kernels
