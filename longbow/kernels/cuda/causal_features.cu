// A block owns 64 tokens of a span, a warp 16 of them. What lies outside of the span it reads from
// sums; the tokens of the span that it may see it meets 64 at a time, with the weights of the pairs
// in registers.
#include "longbow/kernels/cuda/causal_features.h"
#include "longbow/kernels/cuda/causal_tiles.h"

namespace longbow::kernels {
namespace {

using mma::padded;

// Tables and tiles.
template <int R, int D, bool kTurned>
struct Memory {
  static constexpr int kWidth = kTurned ? R / 2 : R;
  static constexpr size_t kBytes =
      sizeof(Number) *
          (SplitSums<R, D>::kNumbers + kTile * (2 * padded(R) + 2 * padded(D) + padded(kWidth))) +
      sizeof(float) * (R + 4 * kTile);
  SplitSums<R, D> sums;
  Number *phi, *other_phi, *y, *other_y, *x;  // [64, R] twice, [64, D] twice, [64, kWidth]
  float2* turn;                               // [64]
  float *z, *column, *other_column;           // [R], [64], [64]

  __device__ explicit Memory(unsigned char* shared)
      : sums(reinterpret_cast<Number*>(shared)),
        phi(sums.high + sums.kNumbers),
        other_phi(phi + kTile * padded(R)),
        y(other_phi + kTile * padded(R)),
        other_y(y + kTile * padded(D)),
        x(other_y + kTile * padded(D)),
        turn(reinterpret_cast<float2*>(x + kTile * padded(kWidth))),
        z(reinterpret_cast<float*>(turn + kTile)),
        column(z + R),
        other_column(column + kTile) {}
};

// On a multiprocessor.
template <int R, int D, bool kTurned>
constexpr int kBlocks = resident(Memory<R, D, kTurned>::kBytes, D == 32 ? 4 : 3);

template <int R, int D, bool kTurned>
struct Block {
  using Tiles = Memory<R, D, kTurned>;
  const CausalFeatures& task;
  const Tiles& memory;
  const Place& place;

  __device__ void fill_sums(int64_t spans) const {
    const float* from = task.sums + (place.group * spans + place.span) * R * (D + 4);
    memory.sums.fill(from, kReadThreads);
    fill_last<R>(memory.z, from + D, D + 4);
  }
  // Other tokens from `first` on; `scaled`: they are queries.
  __device__ void load_other(int64_t first, bool scaled) const {
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t token = place.group * task.x.tokens;
    FeatureStage<R, kTurned, kReadThreads> stage;
    Stage<D, kReadThreads> y;
    stage.load(task.other, place.whole_span(), first);
    y.load(rows_of(task.other_y, place.b, place.h), first, place.span_end, task.depth);
    if (scaled && task.inverse) y.scale(task.inverse + token, first, place.span_end);
    __syncthreads();  // nobody reads the last ones any more
    stage.store(task.other.map, memory.other_phi);
    y.store(memory.other_y);
    if (thread < kTile)
      memory.other_column[thread] =
          scaled && first + thread < place.span_end ? task.column[token + first + thread] : 1;
    __syncthreads();
  }

  // What the 16 queries of this warp read, not yet divided, and the sums of their weights.
  template <bool exact>
  __device__ void read(mma::C (&values)[D / 8], mma::C& weights, const Number* phi) const {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    const uint32_t one = g == 0 ? mma::pack<Number>(1, 1) : 0;
    const mma::B ones = {{one, one}};
    times_sums<R, D>(values, phi, memory.sums);
#pragma unroll 1
    for (int k = 0; k < R; k += 16)
      mma::multiply<Number>(weights, mma::a_of_rows(phi + k, padded(R)),
                            split_column(memory.z + k));
    for (int64_t first = place.span_first; first <= place.first; first += kTile) {
      load_other(first, false);
      mma::C pairs[kTile / 8] = {};
      times_other<R>(pairs, phi, memory.other_phi);
      if (first == place.first) mask_pairs(pairs, false);
      times_pairs<D, exact>(values, pairs, memory.other_y);
#pragma unroll
      for (int k = 0; k < kTile / 16; ++k) {
        const mma::A a = mma::a_of<Number>(pairs[2 * k], pairs[2 * k + 1]);
        mma::multiply<Number>(weights, a, ones);
        mma::multiply<Number>(weights, rest_of(pairs + 2 * k, a), ones);
      }
    }
  }
};

template <int R, int D, bool kTurned>
__global__ void __launch_bounds__(kReadThreads, kBlocks<R, D, kTurned>) read(CausalRead given) {
  unsigned char* const shared = dynamic_memory();
  const auto& task = given.features;
  const Memory<R, D, kTurned> memory(shared);
  const Place place(task);
  const Block<R, D, kTurned> block = {task, memory, place};
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Number* own = memory.phi + warp * 16 * padded(R);

  FeatureStage<R, kTurned, kReadThreads> x;
  x.load(task.x, place.whole_span(), place.first);
  x.store(task.x.map, memory.phi);
  block.fill_sums((task.x.tokens + task.span - 1) / task.span);
  __syncthreads();
  mma::C values[D / 8] = {}, weights = {};
  block.template read<false>(values, weights, own);
  const auto divisor = divisors(weights, given);
  __syncwarp();
  put_product<D>(own, values, divisor.factor[0], divisor.factor[1]);
  write_rows<D>(own, rows_of(given.out, place.b, place.h), place.first + warp * 16, place.span_end,
                task.depth);
  divisor.write(given.inverse + place.group * task.x.tokens, place.first + warp * 16,
                place.span_end);
}

template <int R, int D, bool kTurned>
__global__ void __launch_bounds__(kReadThreads, kBlocks<R, D, kTurned>)
    gradient(CausalGradient given) {
  unsigned char* const shared = dynamic_memory();
  using Tiles = Memory<R, D, kTurned>;
  const auto& task = given.features;
  const bool queries = given.queries;
  const Tiles memory(shared);
  const Place place(task);
  const Block<R, D, kTurned> block = {task, memory, place};
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32,
            g = lane / 4, t = lane % 4;
  const int64_t token = place.group * task.x.tokens, here = place.first + warp * 16;
  Number *own_phi = memory.phi + warp * 16 * padded(R), *own_y = memory.y + warp * 16 * padded(D),
         *own_x = memory.x + warp * 16 * padded(Tiles::kWidth);
  float* own_column = memory.column + warp * 16;

  {
    FeatureStage<R, kTurned, kReadThreads> x;
    Stage<D, kReadThreads> y;
    x.load(task.x, place.whole_span(), place.first);
    y.load(rows_of(task.y, place.b, place.h), place.first, place.span_end, task.depth);
    if (queries && task.inverse) y.scale(task.inverse + token, place.first, place.span_end);
    x.store(task.x.map, memory.phi);
    x.x.store(memory.x);
    y.store(memory.y);
  }
  block.fill_sums((task.x.tokens + task.span - 1) / task.span);
  if (thread < kTile) {
    memory.turn[thread] = turn_of<kTurned>(task.x, place.b, place.first + thread, place.span_end);
    const bool read = queries && !task.inverse && place.first + thread < place.span_end;
    memory.column[thread] = read ? task.column[token + place.first + thread] : 1;
  }
  __syncthreads();
  if (queries && task.inverse) {
    mma::C values[D / 8] = {}, weights = {};
    block.template read<true>(values, weights, own_phi);
    put_column<D>(own_column, values, own_y, task.inverse + token + here, place.span_end - here);
    if (lane < 16 && here + lane < place.span_end)
      task.column[token + here + lane] = own_column[lane];
  }

  const float column[2] = {own_column[g], own_column[g + 8]};
  mma::C dphi[R / 8], dy[D / 8] = {};
#pragma unroll
  for (int n = 0; n < R / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) dphi[n].part[i] = column[i / 2] * memory.z[n * 8 + 2 * t + i % 2];
#pragma unroll
  for (int k = 0; k < D; k += 16) {
    const mma::A a = mma::a_of_rows(own_y + k, padded(D));
#pragma unroll
    for (int n = 0; n < R / 16; ++n)
#pragma unroll
      for (const Number* part : {memory.sums.high, memory.sums.low}) {
        const mma::TwoB b = mma::b_of_columns(part + n * 16 * padded(D) + k, padded(D));
        mma::multiply<Number>(dphi[2 * n], a, b.tile[0]);
        mma::multiply<Number>(dphi[2 * n + 1], a, b.tile[1]);
      }
  }
  if (!queries) times_sums<R, D>(dy, own_phi, memory.sums);

  // Queries meet the keys of the span up to their own, keys the queries from their own on.
  const int64_t from = queries ? place.span_first : place.first,
                to = queries ? place.first + kTile : place.span_end;
#pragma unroll 1
  for (int64_t first = from; first < to; first += kTile) {
    block.load_other(first, !queries);
    mma::C pairs[kTile / 8];
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        pairs[n].part[i] = queries ? column[i / 2] : memory.other_column[n * 8 + 2 * t + i % 2];
    times_other<D>(pairs, own_y, memory.other_y);
    if (first == place.first) mask_pairs(pairs, !queries);
    if (queries) {  // of which the first see few keys, so that little is left of large parts
      times_pairs<R, true>(dphi, pairs, memory.other_phi);
      continue;
    }
    times_pairs<R, false>(dphi, pairs, memory.other_phi);
#pragma unroll
    for (auto& pair : pairs) pair = {};
    times_other<R>(pairs, own_phi, memory.other_phi);
    if (first == place.first) mask_pairs(pairs, true);
    times_pairs<D, false>(dy, pairs, memory.other_y);
  }
  const float2 turns[2] = {memory.turn[warp * 16 + g], memory.turn[warp * 16 + g + 8]};
  put_slopes<R, kTurned>(own_x, dphi, task.x.map, turns);
  write_rows<Tiles::kWidth>(own_x, rows_of(given.dx, place.b, place.h), here, place.span_end,
                            task.x.width);
  if (queries) return;
  put_product<D>(own_y, dy, 1, 1);
  write_rows<D>(own_y, rows_of(given.dy, place.b, place.h), here, place.span_end, task.depth);
}

dim3 blocks_of(const CausalFeatures& task) {
  return {static_cast<unsigned>((task.x.tokens + kTile - 1) / kTile),
          static_cast<unsigned>(task.batch * task.heads)};
}

// Calls body with R, D and whether features are turned as constants.
template <class F>
void with_shape(const CausalFeatures& task, const F& body) {
  if (task.shape.depth == 128)
    body.template operator()<128, 128, false>();
  else if (task.shape.depth == 32)
    task.x.turns ? body.template operator()<64, 32, true>()
                 : body.template operator()<32, 32, false>();
  else
    task.x.turns ? body.template operator()<128, 64, true>()
                 : body.template operator()<128, 64, false>();
}

}  // namespace

void causal_read_cuda(const CausalRead& task, void* stream) noexcept {
  if (has_whole_spans(task.features)) return span_read_cuda(task, stream);
  with_shape(task.features, [&]<int R, int D, bool kTurned>() {
    launch(read<R, D, kTurned>, blocks_of(task.features), kReadThreads,
           Memory<R, D, kTurned>::kBytes, stream, task);
  });
}

void causal_gradient_cuda(const CausalGradient& task, void* stream) noexcept {
  if (has_whole_spans(task.features)) return span_gradient_cuda(task, stream);
  with_shape(task.features, [&]<int R, int D, bool kTurned>() {
    static_assert(Memory<R, D, kTurned>::kBytes <= feature_memory({R, D}, kTurned, true));
    launch(gradient<R, D, kTurned>, blocks_of(task.features), kReadThreads,
           Memory<R, D, kTurned>::kBytes, stream, task);
  });
}

}  // namespace longbow::kernels
