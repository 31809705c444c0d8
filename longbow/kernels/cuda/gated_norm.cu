// A row belongs to L threads of a warp, 8 channels each.
#include "longbow/kernels/gated_norm.h"

#include "longbow/kernels/cuda/feature_tiles.h"
#include "longbow/kernels/cuda/sigmoid.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1056;  // 8 on each multiprocessor of a large GPU

int lanes_of(int64_t width) {
  int lanes = 1;
  while (lanes * 8 < width) lanes *= 2;
  return lanes;
}
int64_t blocks_of(int64_t rows, int64_t width) {
  const int64_t per_block = kThreads / lanes_of(width), blocks = (rows + per_block - 1) / per_block;
  return blocks < kMostBlocks ? blocks : kMostBlocks;
}

template <int L>
__device__ float over_row(float sum) {
#pragma unroll
  for (int other = 1; other < L; other *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
  return sum;
}

// 8 numbers of a row, zeros where there are none.
struct Eight {
  float x[8] = {};

  Eight() = default;
  __device__ Eight(const void* from, int64_t place, bool there) {
    if (there) spread(*reinterpret_cast<const uint4*>(static_cast<const Number*>(from) + place), x);
  }
  __device__ void store(void* to, int64_t place) const {
    *reinterpret_cast<uint4*>(static_cast<Number*>(to) + place) = packed(x);
  }
};

// What a thread has of the rows that it walks over.
template <int L>
struct Walk {
  static constexpr int kRows = kThreads / L;
  int64_t row, token, token_step;
  int64_t channel;
  int head, heads, head_step;
  bool wanted;

  __device__ explicit Walk(const GatedNorm& task)
      : row(blockIdx.x * int64_t{kRows} + static_cast<int>(threadIdx.x) / L),
        token(row / task.heads),
        token_step(step() / task.heads),
        channel(static_cast<int>(threadIdx.x) % L * 8),
        head(static_cast<int>(row % task.heads)),
        heads(static_cast<int>(task.heads)),
        head_step(static_cast<int>(step() % task.heads)),
        wanted(channel < task.width) {}
  __device__ static int64_t step() { return gridDim.x * int64_t{kRows}; }
  __device__ static int64_t count(const GatedNorm& task) { return task.tokens * task.heads; }
  // All threads of a warp stay together, with or without a row.
  __device__ int64_t rounds(const GatedNorm& task) const {
    return (count(task) - blockIdx.x * int64_t{kRows} + step() - 1) / step();
  }
  // To the next row, without a division.
  __device__ void move() {
    row += step();
    token += token_step;
    head += head_step;
    if (head >= heads) head -= heads, ++token;
  }
  // Where they stand among tokens that are so far apart.
  __device__ int64_t place(const GatedNorm& task, int64_t stride) const {
    return token * stride + head * task.width + channel;
  }
};

// x / sqrt(mean x^2 + epsilon), and the factor; `share` is 1 / width.
template <int L>
__device__ float normed(Eight& x, const GatedNorm& task, float share) {
  float sum = 0;
#pragma unroll
  for (const float number : x.x) sum += number * number;
  const float factor = rsqrtf(over_row<L>(sum) * share + task.epsilon);
#pragma unroll
  for (float& number : x.x) number *= factor;
  return factor;
}

__device__ inline Eight weights_of(const GatedNorm& task, int64_t channel, bool wanted) {
  Eight weight;
  if (wanted)
    for (int i = 0; i < 8; ++i) weight.x[i] = task.weight[channel + i];
  return weight;
}

template <int L>
__global__ void __launch_bounds__(kThreads) forward(GatedNorm task) {
  Walk<L> at(task);
  const Eight weight = weights_of(task, at.channel, at.wanted);
  const int64_t rounds = at.rounds(task);
  const bool gated = task.gate;
  const float share = 1 / static_cast<float>(task.width);
  for (int64_t i = 0; i < rounds; ++i, at.move()) {
    const bool there = at.wanted && at.row < at.count(task);
    const int64_t place = at.row * task.width + at.channel;
    Eight y(task.x, at.place(task, task.x_token), there),
        other(task.other, at.place(task, task.other_token), there && task.other);
    const Eight gate(task.gate, at.place(task, task.gate_token), there && task.gate);
    normed<L>(y, task, share);
    normed<L>(other, task, share);
    if (!there) continue;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float silu = gate.x[e] * sigmoid(gate.x[e]);
      y.x[e] = (y.x[e] + other.x[e]) * weight.x[e] * (gated ? silu : 1);
    }
    y.store(task.y, place);
  }
}

// The gradient of a part from that of its norm: factor (d - n mean(d n)).
template <int L>
__device__ void put_gradient(const Eight& n, float factor, const Eight& d, float share, void* to,
                             int64_t place, bool there) {
  float sum = 0;
#pragma unroll
  for (int e = 0; e < 8; ++e) sum += d.x[e] * n.x[e];
  const float mean = over_row<L>(sum) * share;
  if (!there) return;
  Eight dx;
#pragma unroll
  for (int e = 0; e < 8; ++e) dx.x[e] = factor * (d.x[e] - n.x[e] * mean);
  dx.store(to, place);
}

template <int L>
__global__ void __launch_bounds__(kThreads, 3) backward(GatedNormBackward given) {
  unsigned char* const shared = dynamic_memory();
  const auto& task = given.past;
  Walk<L> at(task);
  const Eight weight = weights_of(task, at.channel, at.wanted);
  Eight dweight;
  const int64_t rounds = at.rounds(task);
  const bool gated = task.gate;
  const float share = 1 / static_cast<float>(task.width);
  for (int64_t i = 0; i < rounds; ++i, at.move()) {
    const bool there = at.wanted && at.row < at.count(task);
    const int64_t place = at.row * task.width + at.channel;
    Eight x(task.x, at.place(task, task.x_token), there),
        other(task.other, at.place(task, task.other_token), there && task.other),
        d(given.dy, place, there);
    const Eight gate(task.gate, at.place(task, task.gate_token), there && task.gate);
    const float factor = normed<L>(x, task, share), other_factor = normed<L>(other, task, share);
    Eight dgate;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float s = sigmoid(gate.x[e]), silu = gated ? gate.x[e] * s : 1,
                  both = x.x[e] + other.x[e];
      dgate.x[e] = d.x[e] * both * weight.x[e] * s * (1 + gate.x[e] * (1 - s));
      dweight.x[e] += d.x[e] * both * silu;
      d.x[e] *= silu * weight.x[e];
    }
    if (gated && there) dgate.store(given.dgate, place);
    put_gradient<L>(x, factor, d, share, given.dx, place, there);
    if (task.other) put_gradient<L>(other, other_factor, d, share, given.dother, place, there);
  }
  auto* sums = reinterpret_cast<float*>(shared);  // [rows of a block, 8 L]
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int e = 0; e < 8; ++e) sums[thread * 8 + e] = dweight.x[e];
  __syncthreads();
  for (int channel = thread; channel < task.width; channel += kThreads) {
    float sum = 0;
    for (int row = 0; row < Walk<L>::kRows; ++row) sum += sums[row * L * 8 + channel];
    given.dweight[blockIdx.x * task.width + channel] = sum;
  }
}

template <class F>
void with_lanes(int64_t width, const F& body) {
  switch (lanes_of(width)) {
    case 1:
      return body.template operator()<1>();
    case 2:
      return body.template operator()<2>();
    case 4:
      return body.template operator()<4>();
    case 8:
      return body.template operator()<8>();
    case 16:
      return body.template operator()<16>();
    default:
      return body.template operator()<32>();
  }
}

}  // namespace

int64_t gated_norm_parts(int64_t rows, int64_t width) noexcept {
  return blocks_of(rows, width);
}

void gated_norm_cuda(const GatedNorm& task, void* stream) noexcept {
  const dim3 blocks(static_cast<unsigned>(blocks_of(task.tokens * task.heads, task.width)));
  with_lanes(task.width, [&]<int L>() { launch(forward<L>, blocks, kThreads, 0, stream, task); });
}

void gated_norm_backward_cuda(const GatedNormBackward& task, void* stream) noexcept {
  const dim3 blocks(static_cast<unsigned>(task.parts));
  with_lanes(task.past.width, [&]<int L>() {
    launch(backward<L>, blocks, kThreads, sizeof(float) * kThreads * 8, stream, task);
  });
}

}  // namespace longbow::kernels
