#include "longbow/kernels/time_steps.h"

#include "longbow/kernels/cuda/device.h"

namespace longbow::kernels {
namespace {

constexpr int kFewestThreads = 256;
constexpr int64_t kMostParts = 528;  // 4 blocks on each multiprocessor of a large GPU

// Tokens of a block at a time.
__host__ __device__ constexpr int64_t rows_of(int64_t heads) {
  return heads < kFewestThreads ? kFewestThreads / heads : 1;
}

// What a thread has of its head, and of a token.
struct Stepping {
  const TimeSteps& task;
  int64_t head, row, rows;
  float bias, rate;
  float sum, step;  // dt + b, and what becomes of it

  __device__ explicit Stepping(const TimeSteps& given)
      : task(given),
        head(threadIdx.x % task.heads),
        row(threadIdx.x / task.heads),
        rows(rows_of(task.heads)),
        bias(task.bias[head]),
        rate(-expf(task.log_rate[head])) {}
  __device__ bool kept(int64_t token) const { return !task.keep || task.keep[token]; }
  __device__ void load(int64_t token) {
    const int64_t b = token / task.tokens, t = token % task.tokens;
    const auto* dt = static_cast<const __nv_bfloat16*>(task.dt);
    sum = static_cast<float>(dt[b * task.dt_batch + t * task.dt_token + head]) + bias;
    step = sum > 20 ? sum : log1pf(expf(sum));
  }
  // Within the limits; NaN stays NaN.
  __device__ float limited() const {
    return step < task.least ? task.least : step > task.most ? task.most : step;
  }
  // Calls body(token) for those of this thread.
  template <class F>
  __device__ void each(const F& body) const {
    for (int64_t token = blockIdx.x * rows + row; token < task.batch * task.tokens;
         token += gridDim.x * rows)
      body(token);
  }
};

__global__ void __launch_bounds__(1024) forward(TimeSteps task) {
  Stepping at(task);
  at.each([&](int64_t token) {
    at.load(token);
    const float step = at.kept(token) ? at.limited() : 0;
    task.step[token * task.heads + at.head] = step;
    task.log_decay[token * task.heads + at.head] = at.rate * step;
  });
}

__global__ void __launch_bounds__(1024) backward(TimeStepsBackward given) {
  const auto& task = given.past;
  Stepping at(task);
  float dbias = 0, drate = 0;
  at.each([&](int64_t token) {
    at.load(token);
    const int64_t place = token * task.heads + at.head;
    const float dlog = given.dlog_decay[place], dstep = given.dstep[place] + at.rate * dlog,
                step = at.limited();
    const bool kept = at.kept(token), fixed = step < at.step || step > at.step;
    const float ddt = kept && !fixed ? dstep / (1 + expf(-at.sum)) : 0;
    static_cast<__nv_bfloat16*>(given.ddt)[place] = __float2bfloat16(ddt);
    dbias += ddt;
    drate += kept ? dlog * at.rate * step : 0;
  });
  auto* const sums = reinterpret_cast<float2*>(dynamic_memory());
  sums[threadIdx.x] = {dbias, drate};
  __syncthreads();
  if (at.row > 0) return;
  float2 all = {0, 0};
  for (int64_t row = 0; row < at.rows; ++row) {
    const float2 own = sums[row * task.heads + at.head];
    all = {all.x + own.x, all.y + own.y};
  }
  float* to = given.sums + blockIdx.x * 2 * task.heads + at.head;
  to[0] = all.x;
  to[task.heads] = all.y;
}

}  // namespace

int64_t time_steps_parts(int64_t tokens, int64_t heads) noexcept {
  const int64_t rows = rows_of(heads), parts = (tokens + rows - 1) / rows;
  return parts < kMostParts ? parts : kMostParts;
}

void time_steps_cuda(const TimeSteps& task, void* stream) noexcept {
  const auto blocks = static_cast<unsigned>(time_steps_parts(task.batch * task.tokens, task.heads));
  const auto threads = static_cast<unsigned>(rows_of(task.heads) * task.heads);
  launch(forward, blocks, threads, 0, stream, task);
}

void time_steps_backward_cuda(const TimeStepsBackward& task, void* stream) noexcept {
  const auto threads = static_cast<unsigned>(rows_of(task.past.heads) * task.past.heads);
  launch(backward, static_cast<unsigned>(task.parts), threads, threads * sizeof(float2), stream,
         task);
}

}  // namespace longbow::kernels
