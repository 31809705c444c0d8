// Gradients of queries and of keys, whose features are formed again. With t_ij = y_i . v_j +
// column_i, the gradient of M_ij: that of phi(q_i) is sum_j t_ij phi(k_j) over the keys outside of
// the window, by the sums over all of them and less those in it; and so it is of phi(k_j).
#include "longbow/kernels/cuda/window_tiles.h"

namespace longbow::kernels {
namespace {

using namespace window;

// Pairs of own tokens with others: t times the factor of their features to slopes, and what the
// exact weights add to the gradients of own tokens, divided by f.
template <class Form, bool kKeys>
__device__ __forceinline__ void exact_gradients(const Block<Form, kKeys>& block,
                                                mma::A (&slopes)[Form::kMet],
                                                mma::C (&dx)[kDepth / 8]) {
  const auto& memory = block.memory;
  const Lane at;
  const float factor = block.task.q.factor, score = factor * factor;
  const Number *x = memory.x + at.warp * 16 * kStride, *y = memory.y + at.warp * 16 * kStride;
#pragma unroll
  for (int n = 0; n < Form::kMet; ++n) {
    if (!block.meets(n)) continue;
    const int tile = (block.first_tile() + n) * 16;
    mma::C scores[2] = {}, t[2];
    Rows16(x).times_transposed(scores, memory.other_x + tile * kStride);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      t[i / 4].part[i % 4] = kKeys ? memory.other_column[tile + i / 4 * 8 + 2 * at.t + i % 2]
                                   : memory.column[at.row + i % 4 / 2 * 8];
    Rows16(y).times_transposed(t, memory.other_y + tile * kStride);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = at.row + i % 4 / 2 * 8, other = tile + i / 4 * 8 + 2 * at.t + i % 2;
      const auto pair = block.pair_of(row, other);
      const float most = kKeys ? memory.other_most[other] : memory.most[row];
      float &one = scores[i / 4].part[i % 4], &slope = t[i / 4].part[i % 4];
      one = pair.near ? __expf(one * score - most) * slope * factor : 0;
      slope *= pair.factor;
    }
    slopes[n] = mma::a_of<Number>(t[0], t[1]);
    times_rows<1>({&dx}, {mma::a_of<Number>(scores[0], scores[1])},
                  memory.other_x + tile * kStride);
  }
}

// dx += (phi dphi) omega with dphi = past (y S^T + column z) + slopes phi of the others; `total` is
// the sum of phi dphi.
template <class Form, bool kKeys>
__device__ __forceinline__ void feature_gradients(const Block<Form, kKeys>& block,
                                                  const mma::C (&phi)[2][2],
                                                  const float (&column)[2], const float (&past)[2],
                                                  const mma::A (&slopes)[Form::kMet],
                                                  const Number* omega, const Number* sums, int r,
                                                  mma::C (&dx)[kDepth / 8], float (&total)[2]) {
  constexpr bool kMirrored = Form::kMirrored;
  const auto& memory = block.memory;
  const Lane at;
  mma::C du[2][2];
#pragma unroll
  for (int set = 0; set < 2; ++set) {
    auto& slope = du[set];
    const float* z = memory.z + block.feature(r, set * 16);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      slope[i / 4].part[i % 4] = column[i % 4 / 2] * z[i / 4 * 8 + 2 * at.t + i % 2];
    Rows16(memory.y + at.warp * 16 * kStride).times_transposed(slope, sums + set * 16 * kStride);
    if (Form::kCausal)
#pragma unroll
      for (int i = 0; i < 8; ++i) slope[i / 4].part[i % 4] *= past[i % 4 / 2];
#pragma unroll
    for (int n = 0; n < Form::kMet; ++n) {
      if (!block.meets(n)) continue;
      const mma::TwoB b = mma::b_of_rows(
          memory.phi + (block.first_tile() + n) * 16 * kStepStride + set * 16, kStepStride);
      mma::multiply<Number>(slope[0], slopes[n], b.tile[0]);
      mma::multiply<Number>(slope[1], slopes[n], b.tile[1]);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float& one = slope[i / 4].part[i % 4];
      one *= phi[set][i / 4].part[i % 4];
      total[i % 4 / 2] += one;
      // A projection and its negative.
      if (kMirrored && set == 1) du[0][i / 4].part[i % 4] -= one;
    }
    if (!kMirrored)
      times_rows<1>({&dx}, {mma::a_of<Number>(slope[0], slope[1])}, omega + set * 16 * kStride);
  }
  if (kMirrored) times_rows<1>({&dx}, {mma::a_of<Number>(du[0][0], du[0][1])}, omega);
}

template <class Form>
__global__ void __launch_bounds__(kThreads, 2) query_gradient(RandomWindowQueries given) {
  const auto& task = given.all;
  const Memory memory(dynamic_memory());
  const Block<Form, false> block(task, memory);
  const auto& place = block.place;
  const Lane at;
  const int64_t others = place.first - block.kBefore;
  block.template load_queries<kSpan>(memory.x, memory.offset, memory.most, memory.peak,
                                     place.first);
  block.template load_slopes<kSpan>(memory.y, given.g, place.first);
  block.template load_keys<Form::kOthers>(memory.other_x, memory.other_offset, memory.other_peak,
                                          others);
  block.template load_values<Form::kOthers>(memory.other_y, others);
  __syncthreads();
  const int64_t here = place.first + at.warp * 16, token = place.token + here;
  put_columns(memory.column + at.warp * 16, given.column + token, task.exact + token * kDepth,
              task.inverse + token, memory.y + at.warp * 16 * kStride, place.tokens - here);
  mma::A slopes[Form::kMet];
  mma::C dx[kDepth / 8] = {};
  exact_gradients(block, slopes, dx);
  if (Form::kCausal && at.t < 2) {  // what the sums are multiplied by takes the place of m
    float& peak = memory.peak[at.row + 8 * at.t];
    peak = __expf(task.before[block.sums_at()] - peak);
  }
  __syncwarp();
  float total[2] = {};
  block.each_step([&](const Number* omega, const Number* sums, int r) {
    mma::C phi[2][2];
    block.own_features(phi, omega, r);
    const float column[2] = {memory.column[at.row], memory.column[at.row + 8]},
                past[2] = {memory.peak[at.row], memory.peak[at.row + 8]};
    feature_gradients(block, phi, column, past, slopes, omega, sums, r, dx, total);
  });
  over_lanes(total[0]);
  over_lanes(total[1]);
  Number* const own = memory.x + at.warp * 16 * kStride;
  put_exponents(own, own, dx, total, false, task.q.factor);
  write_rows<kDepth>(own, place.rows(given.dq), here, place.tokens, task.q.width);
}

template <class Form>
__global__ void __launch_bounds__(kThreads) key_gradient(RandomWindowKeys given) {
  const auto& task = given.all;
  const Memory memory(dynamic_memory());
  const Block<Form, true> block(task, memory);
  const auto& place = block.place;
  const Lane at;
  const int64_t others = place.first - block.kBefore;
  block.template load_keys<kSpan>(memory.x, memory.offset, memory.peak, place.first);
  block.template load_values<kSpan>(memory.y, place.first);
  block.template load_queries<Form::kOthers>(memory.other_x, memory.other_offset, memory.other_most,
                                             memory.other_peak, others);
  block.template load_slopes<Form::kOthers>(memory.other_y, given.g, others);
  for (int row = static_cast<int>(threadIdx.x); row < Form::kOthers; row += kThreads)
    memory.other_column[row] =
        place.has(others + row) ? given.column[place.token + others + row] : 0;
  __syncthreads();
  mma::A slopes[Form::kMet];
  mma::C dx[kDepth / 8] = {}, dv[kDepth / 8] = {}, pairs[Form::kMet][2] = {};
  exact_gradients(block, slopes, dx);
  float total[2] = {}, later[2] = {1, 1};
  if (Form::kCausal)
#pragma unroll
    for (int low = 0; low < 2; ++low)
      later[low] = __expf(memory.peak[at.row + 8 * low] - task.k.peaks[block.sums_at()]);
  block.each_step([&](const Number* omega, const Number* sums, int r) {
    mma::C phi[2][2];
    block.own_features(phi, omega, r);
#pragma unroll
    for (int set = 0; set < 2; ++set)
      block.add_products(dv, pairs, mma::a_of<Number>(phi[set][0], phi[set][1]), set, sums);
    feature_gradients(block, phi, {1, 1}, later, slopes, omega, sums, r, dx, total);
  });

  block.template load_slopes<Form::kOthers>(memory.other_y, given.g, others);
  __syncthreads();
  Number *const own = memory.x + at.warp * 16 * kStride, *const values =
                                                             memory.y + at.warp * 16 * kStride;
  if (Form::kCausal)
#pragma unroll
    for (int i = 0; i < kDepth / 2; ++i) dv[i / 4].part[i % 4] *= later[i % 4 / 2];
#pragma unroll
  for (int n = 0; n < Form::kMet; ++n) {
    if (!block.meets(n)) continue;
    const int tile = (block.first_tile() + n) * 16;
    block.weigh(pairs[n], own, tile);
    times_rows<1>({&dv}, {mma::a_of<Number>(pairs[n][0], pairs[n][1])},
                  memory.other_y + tile * kStride);
  }
  over_lanes(total[0]);
  over_lanes(total[1]);
  const int64_t here = place.first + at.warp * 16;
  put_exponents(own, own, dx, total, false, task.q.factor);
  write_rows<kDepth>(own, place.rows(given.dk), here, place.tokens, task.k.width);
  put_product<kDepth>(values, dv, 1, 1);
  write_rows<kDepth>(values, place.rows(given.dv), here, place.tokens, task.depth);
}

}  // namespace

void random_window_queries_cuda(const RandomWindowQueries& task, void* stream) noexcept {
  with_form(task.all, [&]<class Form>() {
    launch(query_gradient<Form>, blocks_of(task.all), kThreads, Memory::kBytes, stream, task);
  });
}

void random_window_keys_cuda(const RandomWindowKeys& task, void* stream) noexcept {
  with_form(task.all, [&]<class Form>() {
    launch(key_gradient<Form>, blocks_of(task.all), kThreads, Memory::kBytes, stream, task);
  });
}

}  // namespace longbow::kernels
