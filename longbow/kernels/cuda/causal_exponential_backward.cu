// Gradients of queries and of keys under a causal mask, whose features are formed again.
#include "longbow/kernels/cuda/exponential_tiles.h"

namespace longbow::kernels {
namespace {

using namespace exponential;

// The gradient of w_ij, y_i . v_j + column_i, times exp(p_j - m_i): as left factors of 16 others
// each. Rows [16, D] of own tokens and [128, D] of the others.
template <bool kKeys>
__device__ __forceinline__ void pair_slopes(mma::A (&slopes)[kSpan / 16], const Number* own,
                                            const Number* others, const float* columns,
                                            const float (&weight)[2], const float* weights) {
  const Lane at;
#pragma unroll
  for (int n = 0; n < kSpan / 16; ++n) {
    if (!meets<kKeys>(n)) continue;
    mma::C pairs[2];
#pragma unroll
    for (int i = 0; i < 8; ++i)
      pairs[i / 4].part[i % 4] =
          columns[kKeys ? n * 16 + i / 4 * 8 + 2 * at.t + i % 2 : at.row + i % 4 / 2 * 8];
    Rows16(own).times_transposed(pairs, others + n * 16 * kStride);
    weigh<kKeys>(pairs, n, weight, weights, at.warp);
    slopes[n] = mma::a_of<Number>(pairs[0], pairs[1]);
  }
}

// dphi = factor (y S^T + column z) + slopes phi of the others.
template <bool kKeys>
__device__ __forceinline__ void feature_slopes(mma::C (&slope)[2], const Number* y,
                                               const float (&column)[2], const float (&factor)[2],
                                               const Number* sums, const float* z,
                                               const mma::A (&slopes)[kSpan / 16],
                                               const Number* others) {
  const Lane at;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    slope[i / 4].part[i % 4] = column[i % 4 / 2] * z[i / 4 * 8 + 2 * at.t + i % 2];
  Rows16(y).times_transposed(slope, sums);
#pragma unroll
  for (int i = 0; i < 8; ++i) slope[i / 4].part[i % 4] *= factor[i % 4 / 2];
#pragma unroll
  for (int n = 0; n < kSpan / 16; ++n) {
    if (!meets<kKeys>(n)) continue;
    const mma::TwoB b = mma::b_of_rows(others + n * 16 * kStepStride, kStepStride);
    mma::multiply<Number>(slope[0], slopes[n], b.tile[0]);
    mma::multiply<Number>(slope[1], slopes[n], b.tile[1]);
  }
}
// From dphi to the gradient of the exponents.
__device__ __forceinline__ void times_features(mma::C (&slope)[2], const mma::A& phi) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = mma::unpack<Number>(phi.part[i]);
    slope[i / 2].part[i % 2 * 2] *= two.x;
    slope[i / 2].part[i % 2 * 2 + 1] *= two.y;
  }
}

__global__ void __launch_bounds__(kThreads, 2) query_gradient(CausalExponentialQueries given) {
  const auto& task = given.all;
  const Memory memory(dynamic_memory());
  const Block block(task, memory);
  const Lane at;
  block.start_tokens();
  block.put_offsets();
  block.load_gradient(given.g);
  block.await();
  Number *own = memory.q + at.warp * 16 * kStride, *y = memory.g + at.warp * 16 * kStride;
  const int64_t here = block.span.first + at.warp * 16, token = block.token + here;
  put_columns(memory.column + at.warp * 16, given.column + token, task.exact + token * kDepth,
              task.inverse + token, y, block.span.end - here,
              given.dlog_sum ? given.dlog_sum + token : nullptr);
  mma::A slopes[kSpan / 16];
  {
    const float before = exponent_of_two(task.before[block.span_at()]),
                most[2] = {memory.most[at.row], memory.most[at.row + 8]};
    pair_slopes<false>(slopes, y, memory.v, memory.column, most, memory.peaks);
    // What the sums are multiplied by takes the place of m, which no other warp reads.
    if (at.t < 2) memory.most[at.row + 8 * at.t] = mma::power_of_two(before - most[at.t]);
    __syncwarp();
  }
  mma::C du[kDepth / 8] = {};
  block.each_step(block.queries(), block.keys(),
                  [&](const mma::A& phi, const Number* omega, const Number* sums, const float* z,
                      const Number* keys, int) {
                    mma::C slope[2];
                    const float past[2] = {memory.most[at.row], memory.most[at.row + 8]},
                                column[2] = {memory.column[at.row], memory.column[at.row + 8]};
                    feature_slopes<false>(slope, y, column, past, sums, z, slopes, keys);
                    times_features(slope, phi);
                    times_rows<1>({&du}, {mma::a_of<Number>(slope[0], slope[1])}, omega);
                  });
  // The logarithm of the sum of weights falls with |x|^2 / 2, which cancels in the output.
  float falls[2] = {};
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    const int64_t n = block.span.first + at.row + 8 * low;
    if (given.dlog_sum && n < block.span.end && task.inverse[block.token + n] > 0)
      falls[low] = given.dlog_sum[block.token + n];
  }
  put_exponents(own, own, du, falls, false, task.q.factor);
  write_rows<kDepth>(own, rows_of(given.dq, block.span.b, block.span.h),
                     block.span.first + at.warp * 16, block.span.end, task.q.width);
}

// A left factor, transposed.
__device__ __forceinline__ mma::A turned(const uint4& a, Number* room) {
  __syncwarp();
  put_tile(room, {{a.x, a.y, a.z, a.w}});
  __syncwarp();
  return mma::a_of_columns(room, kStepStride);
}

// The features of the keys are formed a second time for dv: with both products at once half as many
// warps would have room.
__global__ void __launch_bounds__(kThreads, 2) key_gradient(CausalExponentialKeys given) {
  const auto& task = given.all;
  const Memory memory(dynamic_memory());
  const Block block(task, memory);
  const Lane at;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t here = block.span.first + at.warp * 16, end = block.span.end;
  block.start_tokens();
  block.put_offsets();
  block.load_gradient(given.g);
  if (thread < kSpan) {
    const int64_t n = block.span.first + thread;
    memory.column[thread] = n < block.span.end ? given.column[block.token + n] : 0;
  }
  block.await();
  Number *own = memory.k + at.warp * 16 * kStride, *v = memory.v + at.warp * 16 * kStride;
  float later[2];
  {
    const float whole = exponent_of_two(task.span_peaks[block.span_at()]),
                peak[2] = {memory.peaks[at.row], memory.peaks[at.row + 8]};
    later[0] = mma::power_of_two(peak[0] - whole);
    later[1] = mma::power_of_two(peak[1] - whole);
    mma::A slopes[kSpan / 16];
    pair_slopes<true>(slopes, v, memory.g, memory.column, peak, memory.most);
    mma::C du[kDepth / 8] = {};
    float sums_of[2] = {};  // of the gradients of the exponents
    block.each_step(block.keys(), block.queries(),
                    [&](const mma::A& phi, const Number* omega, const Number* sums, const float* z,
                        const Number* queries, int) {
                      mma::C slope[2];
                      feature_slopes<true>(slope, v, {1, 1}, later, sums, z, slopes, queries);
                      times_features(slope, phi);
#pragma unroll
                      for (int i = 0; i < 8; ++i) sums_of[i % 4 / 2] += slope[i / 4].part[i % 4];
                      times_rows<1>({&du}, {mma::a_of<Number>(slope[0], slope[1])}, omega);
                    });
    block.start_tables();
    over_lanes(sums_of[0]);
    over_lanes(sums_of[1]);
    Number* const dk = memory.q + at.warp * 16 * kStride;  // no warp reads others' rows
    put_exponents(dk, own, du, sums_of, false, task.k.factor);
    write_rows<kDepth>(dk, rows_of(given.dk, block.span.b, block.span.h), here, end, task.k.width);
  }
  uint4 pairs[kSpan / 16];  // with 16 queries each, and this warp's keys
#pragma unroll
  for (int n = 0; n < kSpan / 16; ++n)
    if (meets<true>(n)) pairs[n] = block.pairs(n, at.warp)[at.lane];
  block.await();

  mma::C dv[kDepth / 8] = {};
  block.each_own_step(block.keys(), [&](const mma::A& phi, const Number* sums) {
    times_rows<1>({&dv}, {phi}, sums);
  });
#pragma unroll
  for (int i = 0; i < kDepth / 2; ++i) dv[i / 4].part[i % 4] *= later[i % 4 / 2];
  Number* const room = memory.phi + at.warp * 2 * 16 * kStepStride;
#pragma unroll
  for (int n = 0; n < kSpan / 16; ++n)
    if (meets<true>(n)) times_rows<1>({&dv}, {turned(pairs[n], room)}, memory.g + n * 16 * kStride);
  put_product<kDepth>(v, dv, 1, 1);
  write_rows<kDepth>(v, rows_of(given.dv, block.span.b, block.span.h), here, end, task.depth);
}

}  // namespace

void causal_exponential_queries_cuda(const CausalExponentialQueries& task, void* stream) noexcept {
  launch(query_gradient, blocks_of(task.all), kThreads, Memory::kBytes, stream, task);
}

void causal_exponential_keys_cuda(const CausalExponentialKeys& task, void* stream) noexcept {
  launch(key_gradient, blocks_of(task.all), kThreads, Memory::kBytes, stream, task);
}

}  // namespace longbow::kernels
