// What queries read: sums over all keys, and the difference of both weights for those in the
// window.
#include "longbow/kernels/cuda/window_tiles.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels {
namespace {

using namespace window;

// A thread has four neighbours of a row of sums, or the number beside them.
__global__ void fold(RandomWindowFold task) {
  constexpr int kPacks = kDepth / 4 + 1;
  const int64_t size = task.rows * kPacks, i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= task.groups * size) return;
  const int64_t group = i / size, row = i % size / kPacks, pack = i % kPacks;
  const auto* from =
      reinterpret_cast<const float4*>(task.from) + group * task.spans * size + row * kPacks + pack;
  float4 sum = {0, 0, 0, 0};
#pragma unroll 4
  for (int64_t span = 0; span < task.spans; ++span) {
    const float4 next = from[span * size];
    sum = {sum.x + next.x, sum.y + next.y, sum.z + next.z, sum.w + next.w};
  }
  const int64_t place = group * task.rows + row;
  if (pack < kDepth / 4)
    *reinterpret_cast<uint2*>(static_cast<Number*>(task.sums) + place * kDepth + pack * 4) = {
        mma::pack<Number>(sum.x, sum.y), mma::pack<Number>(sum.z, sum.w)};
  else
    task.beside[place] = sum.x;
}

// m of the queries of a span: the largest exponent of the keys before it, and of those in it that
// are before the window. Leaves it in shared memory.
template <class Block>
__device__ void find_peaks(const Block& block, float before) {
  const auto& task = block.task;
  const auto& memory = block.memory;
  const Lane at;
  const int thread = static_cast<int>(threadIdx.x);
  float* const upto = memory.column;  // the largest of each 32 keys up to each of them
  if (thread < kSpan) {
    float most = memory.other_peak[kSide + thread];
    for (int other = 1; other < 32; other *= 2) {
      const float earlier = __shfl_sync(0xffffffffu, most, max(at.lane - other, 0));
      if (at.lane >= other) most = fmaxf(most, earlier);
    }
    upto[thread] = most;
  }
  __syncthreads();
  if (thread < kSpan) {
    const int last = thread - static_cast<int>(task.back) - 1;
    float most = before;
    for (int whole = 31; whole < last; whole += 32) most = fmaxf(most, upto[whole]);
    if (last >= 0) most = fmaxf(most, upto[last]);
    memory.peak[thread] = most;
    const int64_t n = block.place.first + thread;
    if (n < block.place.tokens) task.peak[block.place.token + n] = most;
  }
  if (thread == 0) task.before[block.sums_at()] = before;
  __syncthreads();
}

// c and the offsets of this warp's queries, which are kept. `peak`: of the keys whose sums are
// read.
template <class Block>
__device__ void find_most(const Block& block, const RandomWindowRead& given, float peak) {
  const auto& task = block.task;
  const auto& memory = block.memory;
  const Lane at;
  const float score = task.q.factor * task.q.factor;
  const Rows16 own(memory.x + at.warp * 16 * kStride);
  float top[2] = {kNothing, kNothing};
#pragma unroll
  for (int n = 0; n < Block::kMet; ++n) {
    if (!block.meets(n)) continue;
    const int tile = (block.first_tile() + n) * 16;
    mma::C pairs[2] = {};
    own.times_transposed(pairs, memory.other_x + tile * kStride);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (block.pair_of(at.row + i % 4 / 2 * 8, tile + i / 4 * 8 + 2 * at.t + i % 2).near)
        top[i % 4 / 2] = fmaxf(top[i % 4 / 2], pairs[i / 4].part[i % 4] * score);
  }
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    top[low] = fmaxf(top[low], __shfl_xor_sync(0xffffffffu, top[low], 1));
    top[low] = fmaxf(top[low], __shfl_xor_sync(0xffffffffu, top[low], 2));
    const int row = at.row + 8 * low;
    const int64_t n = block.place.first + row, to = block.place.token + n;
    if (at.t > 0) continue;
    float offset = INFINITY;
    if (n < block.place.tokens) {
      const float features = static_cast<float>(task.q.projections * task.shape.sets),
                  most = Block::kCausal ? memory.peak[row] : peak, largest = given.largest[to],
                  rest = memory.offset[row] - most + logf(features);  // |f q|^2 / 2 was there
      top[low] = fmaxf(top[low], largest - rest);
      offset = fmaxf(top[low] + rest, largest);  // where they cancel there is no key
      task.most[to] = top[low];
      task.offset[to] = offset;
      if (Block::kCausal) given.sum_offset[to] = offset + (most - peak);
    }
    memory.most[row] = top[low];
    memory.offset[row] = offset * kLog2E;
  }
  __syncwarp();
}

template <class Form>
__global__ void __launch_bounds__(kThreads, Form::kCausal ? 1 : 2) read(RandomWindowRead given) {
  const auto& task = given.all;
  const Memory memory(dynamic_memory());
  const Block<Form, false> block(task, memory);
  const auto& place = block.place;
  const Lane at;
  load_tokens<kSpan>(
      memory.x, place, task.q.x, place.first, task.q.width, nullptr, nullptr,
      [&](int row, int64_t, bool, float square) { memory.offset[row] = block.half(square); });
  block.template load_keys<Form::kOthers>(memory.other_x, memory.other_offset, memory.other_peak,
                                          place.first - kSide);
  const float peak = block.peak_of_sums();
  __syncthreads();
  if constexpr (Form::kCausal) find_peaks(block, peak);
  find_most(block, given, peak);

  mma::C values[kDepth / 8] = {}, weights = {}, pairs[Form::kMet][2] = {};
  block.each_step([&](const Number* omega, const Number* sums, int r) {
    mma::C phi[2][2];
    block.own_features(phi, omega, r);
#pragma unroll
    for (int set = 0; set < 2; ++set) {
      const mma::A a = mma::a_of<Number>(phi[set][0], phi[set][1]);
      mma::multiply<Number>(weights, a, split_column(memory.z + block.feature(r, set * 16)));
      block.add_products(values, pairs, a, set, sums);
    }
  });

  block.template load_values<Form::kOthers>(memory.other_y, place.first - kSide);
  __syncthreads();
  Number* const own = memory.x + at.warp * 16 * kStride;
  float weight[2];
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    const float past = Form::kCausal ? __expf(peak - memory.peak[at.row + 8 * low]) : 1;
    weight[low] = at.t == 0 ? past * (weights.part[2 * low] + weights.part[2 * low + 1]) : 0;
    if constexpr (Form::kCausal)
#pragma unroll
      for (auto& value : values) {
        value.part[2 * low] *= past;
        value.part[2 * low + 1] *= past;
      }
  }
#pragma unroll
  for (int n = 0; n < Form::kMet; ++n) {
    if (!block.meets(n)) continue;
    const int tile = (block.first_tile() + n) * 16;
    block.weigh(pairs[n], own, tile);
#pragma unroll
    for (int i = 0; i < 8; ++i) weight[i % 4 / 2] += pairs[n][i / 4].part[i % 4];
    const mma::A a = mma::a_of<Number>(pairs[n][0], pairs[n][1]);
    times_rows<1>({&values}, {a}, memory.other_y + tile * kStride);
    times_rows<1>({&values}, {rest_of(pairs[n], a)}, memory.other_y + tile * kStride);
  }

  constexpr float kLeast = 1e-6f;  // above what rounding leaves
  Divisors divisor;
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    over_lanes(weight[low]);
    const bool divided = weight[low] >= kLeast;
    divisor.factor[low] = 1 / (divided ? weight[low] : kLeast);
    divisor.kept[low] = divided ? divisor.factor[low] : -divisor.factor[low];
    const int64_t n = place.first + at.row + 8 * low;
    if (n >= place.tokens) continue;
    float* exact = task.exact + (place.token + n) * kDepth + 2 * at.t;
#pragma unroll
    for (int d = 0; d < kDepth / 8; ++d)
      *reinterpret_cast<float2*>(exact + d * 8) = {
          values[d].part[2 * low] * divisor.factor[low],
          values[d].part[2 * low + 1] * divisor.factor[low]};
  }
  const int64_t here = place.first + at.warp * 16;
  __syncwarp();
  put_product<kDepth>(own, values, divisor.factor[0], divisor.factor[1]);
  write_rows<kDepth>(own, place.rows(given.out), here, place.tokens, task.depth);
  divisor.write(task.inverse + place.token, here, place.tokens);
}

}  // namespace

void random_window_fold_cuda(const RandomWindowFold& task, void* stream) noexcept {
  const int64_t all = task.groups * task.rows * (kDepth / 4 + 1);
  launch(fold, static_cast<unsigned>((all + kThreads - 1) / kThreads), kThreads, 0, stream, task);
}

void random_window_read_cuda(const RandomWindowRead& task, void* stream) noexcept {
  with_form(task.all, [&]<class Form>() {
    launch(read<Form>, blocks_of(task.all), kThreads, Memory::kBytes, stream, task);
  });
}

}  // namespace longbow::kernels
