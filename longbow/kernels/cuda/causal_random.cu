// As causal_features.cu, with sines and cosines of projections that a block forms where it needs
// them: 64 projections, so 128 features.
#include "longbow/kernels/cuda/causal_tiles.h"
#include "longbow/kernels/cuda/feature_stage.h"
#include "longbow/kernels/cuda/random_tiles.h"

namespace longbow::kernels {
namespace {

constexpr auto kMap = RandomMap::trigonometric;
constexpr int kThreads = 128, kRows = 64, kFeatures = 2 * kRows,
              kPhiStride = mma::padded(kFeatures);

// Tables and tiles.
struct Memory {
  static constexpr size_t kBytes =
      sizeof(Number) * ((kFeatures + 2 * kRows + 4 * kTile) * kStride + 2 * kTile * kPhiStride) +
      sizeof(float) * (kFeatures + 8 * kTile + 5 * kDepth);
  static_assert(kBytes <= kCausalRandomMemory);
  Number *sums, *omega, *back;               // [R, D], [P, D] twice
  Number *x, *other_x, *y, *other_y;         // [64, D]
  Number *phi, *other_phi;                   // [64, R]
  float *z, *column, *other_column, *sigma;  // [R], [64] twice, [D]
  float* dsigma;                             // [4, D]
  TokenNumbers tokens, others;

  __device__ explicit Memory(unsigned char* shared)
      : sums(reinterpret_cast<Number*>(shared)),
        omega(sums + kFeatures * kStride),
        back(omega + kRows * kStride),
        x(back + kRows * kStride),
        other_x(x + kTile * kStride),
        y(other_x + kTile * kStride),
        other_y(y + kTile * kStride),
        phi(other_y + kTile * kStride),
        other_phi(phi + kTile * kPhiStride),
        z(reinterpret_cast<float*>(other_phi + kTile * kPhiStride)),
        column(z + kFeatures),
        other_column(column + kTile),
        sigma(other_column + kTile),
        dsigma(sigma + kDepth),
        tokens(dsigma + 4 * kDepth, kTile),
        others(dsigma + 4 * kDepth + 3 * kTile, kTile) {}
};

// The features of this warp's 16 of 64 tokens.
__device__ void form_features(Number* phi, const Number* x, const Number* omega,
                              const TokenNumbers& tokens, int64_t projections) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32,
            g = lane / 4, t = lane % 4, row = warp * 16 + g;
  const float factor[2] = {tokens.factor[row], tokens.factor[row + 8]},
              other[2] = {tokens.other[row], tokens.other[row + 8]};
  const Rows16 own(x + warp * 16 * kStride);
#pragma unroll
  for (int r = 0; r < kRows; r += 16) {
    mma::C both[2][2] = {};
    own.times_transposed(both[0], omega + r * kStride);
    apply_map<kMap>(both, factor, other, static_cast<int>(projections) - r);
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // set, left or right, upper or lower
      const auto& part = both[i / 4][i / 2 % 2].part;
      auto* place =
          phi + (row + i % 2 * 8) * kPhiStride + i / 4 * kRows + r + i / 2 % 2 * 8 + 2 * t;
      *reinterpret_cast<uint32_t*>(place) = mma::pack<Number>(part[i % 2 * 2], part[i % 2 * 2 + 1]);
    }
  }
}

struct Block {
  const CausalRandom& task;
  const Memory& memory;
  const Place& place;

  // A matrix of the head, without waiting.
  __device__ void start_matrix(Number* to, const void* all) const {
    const Number* from = matrix_of(all, task.x.omega_head, place.whole_span());
#pragma unroll
    for (int first = 0; first < kRows * kDepth / 8; first += kThreads) {
      const int i = first + static_cast<int>(threadIdx.x);
      mma::copy_async(to + i / (kDepth / 8) * kStride + i % (kDepth / 8) * 8, from + i * 8, true);
    }
    mma::commit_copies();
  }
  // The sums, and the own tokens, which are asked for first.
  __device__ void load_own() const {
    const int64_t spans = (task.x.tokens + task.span - 1) / task.span;
    TokenStage<kMap, kThreads> stage;
    stage.load(task.x, place.whole_span(), place.first);
    start_matrix(memory.omega, task.x.omega);
    fill_sums(memory.sums, nullptr, memory.z,
              task.sums + (place.group * spans + place.span) * kFeatures * (kDepth + 4), kFeatures,
              kThreads);
    stage.store(task.x, 0, memory.x, memory.tokens);
    mma::await_copies<0>();
    __syncthreads();
    form_features(memory.phi, memory.x, memory.omega, memory.tokens, task.x.projections);
    __syncwarp();
  }
  // Other tokens from `first` on; `scaled`: they are queries.
  __device__ void load_other(int64_t first, bool scaled) const {
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t token = place.group * task.x.tokens;
    TokenStage<kMap, kThreads> stage;
    Stage<kDepth, kThreads> y;
    stage.load(task.other, place.whole_span(), first);
    y.load(rows_of(task.other_y, place.b, place.h), first, place.span_end, task.depth);
    const float scale = scaled ? y.scale_of(task.inverse + token, first, place.span_end) : 1;
    const bool there = scaled && thread < kTile && first + thread < place.span_end;
    const float column = there ? task.column[token + first + thread] : 1;
    __syncthreads();  // nobody reads the last ones any more
    if (scaled) y.scale(scale);
    stage.store(task.other, 0, memory.other_x, memory.others);
    y.store(memory.other_y);
    if (thread < kTile) memory.other_column[thread] = column;
    __syncthreads();
    form_features(memory.other_phi, memory.other_x, memory.omega, memory.others,
                  task.other.projections);
    __syncthreads();
  }

  // What the 16 queries of this warp read, not yet divided, and the sums of their weights.
  __device__ void read(mma::C (&values)[kDepth / 8], mma::C& weights, const Number* phi) const {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    const uint32_t one = g == 0 ? mma::pack<Number>(1, 1) : 0;
    const mma::B ones = {{one, one}};
#pragma unroll 2
    for (int k = 0; k < kFeatures; k += 16) {
      const mma::A a = mma::a_of_rows(phi + k, kPhiStride);
      mma::multiply<Number>(weights, a, split_column(memory.z + k));
      times_rows<1>({&values}, {a}, memory.sums + k * kStride);
    }
#pragma unroll 1
    for (int64_t first = place.span_first; first <= place.first; first += kTile) {
      load_other(first, false);
      mma::C pairs[kTile / 8] = {};
      times_other<kFeatures>(pairs, phi, memory.other_phi);
      if (first == place.first) mask_pairs(pairs, false);
      times_pairs<kDepth, true>(values, pairs, memory.other_y);
#pragma unroll
      for (int k = 0; k < kTile / 16; ++k) {
        const mma::A a = mma::a_of<Number>(pairs[2 * k], pairs[2 * k + 1]);
        mma::multiply<Number>(weights, a, ones);
        mma::multiply<Number>(weights, rest_of(pairs + 2 * k, a), ones);
      }
    }
  }
};

__global__ void __launch_bounds__(kThreads) read(CausalRandomRead given) {
  unsigned char* const shared = dynamic_memory();
  const auto& task = given.features;
  const Memory memory(shared);
  const Place place(task);
  const Block block = {task, memory, place};
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  Number* own = memory.phi + warp * 16 * kPhiStride;

  block.load_own();
  mma::C values[kDepth / 8] = {}, weights = {};
  block.read(values, weights, own);
  Divisors divisor;
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    const int64_t n = place.first + warp * 16 + lane / 4 + 8 * low;
    const float w = __shfl_sync(0xffffffffu, weights.part[2 * low] + weights.part[2 * low + 1],
                                lane & ~3),
                least = n < place.span_end ? given.least[place.b * task.x.tokens + n] : 1;
    divisor.factor[low] = 1 / (w >= least ? w : least);
    divisor.kept[low] = w >= least ? divisor.factor[low] : -divisor.factor[low];
  }
  const int64_t here = place.first + warp * 16;
  put_exact(task.exact + (place.group * task.x.tokens + here) * kDepth, values, divisor.factor,
            place.span_end - here);
  __syncwarp();
  put_product<kDepth>(own, values, divisor.factor[0], divisor.factor[1]);
  write_rows<kDepth>(own, rows_of(given.out, place.b, place.h), here, place.span_end, task.depth);
  divisor.write(given.inverse + place.group * task.x.tokens, place.first + warp * 16,
                place.span_end);
}

// From dphi [16, R] to the gradient of the angles, projected back: [16, D].
__device__ void project_back(mma::C (&du)[kDepth / 8], const mma::C (&dphi)[kFeatures / 8],
                             const Number* phi, const Number* back) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int r = 0; r < kRows; r += 16) {
    mma::C slopes[2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // left or right, upper or lower
      const int n = i / 2, low = i % 2, tile = r / 8 + n;
      const auto* place = phi + (g + 8 * low) * kPhiStride + r + n * 8 + 2 * t;
      const float2 sine = mma::unpack<Number>(*reinterpret_cast<const uint32_t*>(place)),
                   cosine = mma::unpack<Number>(*reinterpret_cast<const uint32_t*>(place + kRows));
      const float *by_sine = dphi[tile].part + 2 * low,
                  *by_cosine = dphi[kRows / 8 + tile].part + 2 * low;
      slopes[n].part[2 * low] = cosine.x * by_sine[0] - sine.x * by_cosine[0];
      slopes[n].part[2 * low + 1] = cosine.y * by_sine[1] - sine.y * by_cosine[1];
    }
    times_rows<1>({&du}, {mma::a_of<Number>(slopes[0], slopes[1])}, back + r * kStride);
  }
}

__global__ void __launch_bounds__(kThreads) gradient(CausalRandomGradient given) {
  unsigned char* const shared = dynamic_memory();
  const auto& task = given.features;
  const bool queries = given.queries;
  const Memory memory(shared);
  const Place place(task);
  const Block block = {task, memory, place};
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32,
            g = lane / 4, t = lane % 4;
  const int64_t token = place.group * task.x.tokens, here = place.first + warp * 16;
  Number *own_phi = memory.phi + warp * 16 * kPhiStride, *own_y = memory.y + warp * 16 * kStride,
         *own_x = memory.x + warp * 16 * kStride;
  float* own_column = memory.column + warp * 16;

  {
    Stage<kDepth, kThreads> y;
    y.load(rows_of(task.y, place.b, place.h), place.first, place.span_end, task.depth);
    const float scale = queries ? y.scale_of(task.inverse + token, place.first, place.span_end) : 1;
    block.start_matrix(memory.back, given.back);
    if (queries) y.scale(scale);
    y.store(memory.y);
  }
  if (thread < kTile) {
    memory.column[thread] = 1;
    memory.sigma[thread] = given.sigma[place.h * kDepth + thread];
  }
  block.load_own();
  if (queries) {
    const int64_t first = token + here;
    put_columns(own_column, task.column + first, task.exact + first * kDepth, task.inverse + first,
                own_y, place.span_end - here);
  }

  const float column[2] = {own_column[g], own_column[g + 8]};
  mma::C dphi[kFeatures / 8], dy[kDepth / 8] = {};
  const Rows16 slopes(own_y);
#pragma unroll
  for (int r = 0; r < kFeatures; r += 16) {
    mma::C part[2];
#pragma unroll
    for (int i = 0; i < 8; ++i)
      part[i / 4].part[i % 4] = column[i % 4 / 2] * memory.z[r + i / 4 * 8 + 2 * t + i % 2];
    slopes.times_transposed(part, memory.sums + r * kStride);
    dphi[r / 8] = part[0];
    dphi[r / 8 + 1] = part[1];
    if (!queries)
      times_rows<1>({&dy}, {mma::a_of_rows(own_phi + r, kPhiStride)}, memory.sums + r * kStride);
  }

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
    times_other<kDepth>(pairs, own_y, memory.other_y);
    if (first == place.first) mask_pairs(pairs, !queries);
    times_pairs<kFeatures, false>(dphi, pairs, memory.other_phi);
    if (queries) continue;
#pragma unroll
    for (auto& pair : pairs) pair = {};
    times_other<kFeatures>(pairs, own_phi, memory.other_phi);
    if (first == place.first) mask_pairs(pairs, true);
    times_pairs<kDepth, false>(dy, pairs, memory.other_y);
  }
  mma::C du[kDepth / 8] = {};
  float dsigma[kDepth / 8][2] = {};
  project_back(du, dphi, own_phi, memory.back);
  put_angles(own_x, du, memory.sigma, memory.tokens, warp * 16, dsigma);
  write_rows<kDepth>(own_x, rows_of(given.dx, place.b, place.h), here, place.span_end,
                     task.x.width);
  if (!queries) {
    put_product<kDepth>(own_y, dy, 1, 1);
    write_rows<kDepth>(own_y, rows_of(given.dy, place.b, place.h), here, place.span_end,
                       task.depth);
  }
  add_up<kThreads / 32>(dsigma, memory.dsigma,
                        given.dsigma + (place.group * gridDim.x + blockIdx.x) * kDepth);
}

dim3 blocks_of(const CausalRandom& task) {
  return {static_cast<unsigned>((task.x.tokens + kTile - 1) / kTile),
          static_cast<unsigned>(task.batch * task.heads)};
}

}  // namespace

void causal_random_read_cuda(const CausalRandomRead& task, void* stream) noexcept {
  launch(read, blocks_of(task.features), kThreads, Memory::kBytes, stream, task);
}

void causal_random_gradient_cuda(const CausalRandomGradient& task, void* stream) noexcept {
  launch(gradient, blocks_of(task.features), kThreads, Memory::kBytes, stream, task);
}

}  // namespace longbow::kernels
