// A thread has two neighbouring channels of a chunk of tokens. Chunks are summed up by themselves;
// then the sums before each are found, and each is met once more. The way back is the same from the
// last token to the first.
#include "longbow/kernels/running_mean.h"

#include "longbow/kernels/cuda/mma.h"
#include "longbow/kernels/cuda/sigmoid.h"

namespace longbow::kernels {
namespace {

constexpr int kLanes = 32, kChunks = 4, kParts = 16;  // chunks of a block, parts of a scan
constexpr int kChunk = RunningMean::chunk;
constexpr float kNothing = -1e30f;

// Of one channel: the largest key, the sum of weights relative to it and what they weigh. Where
// that sum is NaN, so is what follows from it.
struct Sums {
  float most = kNothing, weights = 0, values = 0;

  __device__ void add(float key, float value) {
    const float above = key - most, less = __expf(-fabsf(above));
    const float old = above > 0 ? less : 1, weight = above > 0 ? 1 : less;
    weights = weights * old + weight;
    values = values * old + weight * value;
    most = fmaxf(most, key);
  }
  __device__ bool any() const { return weights != 0; }
  __device__ float mean() const { return any() ? values / weights : 0; }
  __device__ float log_sum() const { return any() ? most + __logf(weights) : kNothing; }
};

// What a thread works on: channels c and c + 1 of the tokens from `first` on.
struct Place {
  int64_t b, c, chunk, first, count;
  bool inside;

  __device__ explicit Place(const RunningMean& task)
      : b(blockIdx.z),
        c((blockIdx.x * int64_t{kLanes} + threadIdx.x) * 2),
        chunk(blockIdx.y * int64_t{kChunks} + threadIdx.y),
        first(chunk * kChunk),
        count(min(int64_t{kChunk}, task.tokens - first)),
        inside(c < task.channels && chunk < task.chunks) {}
  // The numbers of these channels in [B, chunks, 3, C].
  __device__ int64_t sums(const RunningMean& task, int i) const {
    return ((b * task.chunks + chunk) * 3 + i) * task.channels + c;
  }
};

// Two channels of the tokens of a chunk; zeros behind the last token.
template <class T>
struct Rows {
  uint32_t two[kChunk];

  template <class Pointer>
  __device__ void load(const TokenRows<Pointer>& from, const Place& at) {
    const auto* data = static_cast<const T*>(from.data) + at.b * from.batch + at.c;
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      two[i] =
          i < at.count ? *reinterpret_cast<const uint32_t*>(data + (at.first + i) * from.token) : 0;
  }
  __device__ float get(int i, int channel) const {
    const float2 both = mma::unpack<T>(two[i]);
    return channel == 0 ? both.x : both.y;
  }
};
template <class T>
__device__ void store(const TokenRows<void*>& to, const Place& at, int i, float x, float y) {
  auto* data = static_cast<T*>(to.data) + at.b * to.batch + (at.first + i) * to.token + at.c;
  *reinterpret_cast<uint32_t*>(data) = mma::pack<T>(x, y);
}

// A bit for each token of the chunk that counts.
__device__ uint32_t kept_of(const RunningMean& task, const Place& at) {
  uint32_t kept = 0;
#pragma unroll
  for (int i = 0; i < kChunk; ++i)
    if (i < at.count && (!task.keep || task.keep[at.b * task.tokens + at.first + i]))
      kept |= 1u << i;
  return kept;
}
__device__ Sums sums_before(const RunningMean& task, const Place& at, int channel) {
  return {task.sums[at.sums(task, 0) + channel], task.sums[at.sums(task, 1) + channel],
          task.sums[at.sums(task, 2) + channel]};
}

template <class T>
__global__ void __launch_bounds__(kLanes* kChunks) sum_up(RunningMean task) {
  const Place at(task);
  if (!at.inside) return;
  Rows<T> k, v;
  k.load(task.k, at);
  v.load(task.v, at);
  const uint32_t kept = kept_of(task, at);
#pragma unroll
  for (int channel = 0; channel < 2; ++channel) {
    Sums sums;
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      if (kept >> i & 1) sums.add(k.get(i, channel), v.get(i, channel));
    task.sums[at.sums(task, 0) + channel] = sums.most;
    task.sums[at.sums(task, 1) + channel] = sums.weights;
    task.sums[at.sums(task, 2) + channel] = sums.values;
  }
}

// Three numbers of a chunk or of several: those of Sums, or l, S and R.
struct Three {
  float x[3];
};
// Of all before and the next; backward, of all later and the one before them.
template <bool kBackward>
__device__ Three joined(const Three& all, const Three& next) {
  const float to = kBackward ? next.x[0] : fmaxf(all.x[0], next.x[0]),
              old = __expf(kBackward ? to - all.x[0] : all.x[0] - to),
              fresh = kBackward ? 1 : __expf(next.x[0] - to);
  return {{to, all.x[1] * old + next.x[1] * fresh, all.x[2] * old + next.x[2] * fresh}};
}

// In place of the numbers of each chunk those of all before it, or of all behind it. A thread joins
// a part of the chunks of its channel, knows then what comes before its part, and meets it again.
template <bool kBackward>
__global__ void __launch_bounds__(kLanes* kParts)
    scan(float* numbers, int64_t chunks, int64_t channels) {
  __shared__ Three totals[kParts][kLanes];
  constexpr int kAhead = 4;
  const Three none = {{kBackward ? INFINITY : kNothing, 0, 0}};
  const int64_t c = blockIdx.x * int64_t{kLanes} + threadIdx.x,
                share = (chunks + kParts - 1) / kParts, first = threadIdx.y * share,
                end = c < channels ? min(first + share, chunks) : 0;
  const auto place = [&](int64_t n) {
    const int64_t chunk = kBackward ? chunks - 1 - n : n;
    return numbers + ((blockIdx.y * chunks + chunk) * 3) * channels + c;
  };
  const auto walk = [&](Three all, auto visit) {
    for (int64_t n = first; n < end; n += kAhead) {
      Three next[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
        for (int x = 0; x < 3; ++x)
          next[i].x[x] = n + i < end ? place(n + i)[x * channels] : none.x[x];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (n + i >= end) break;
        visit(n + i, all);
        all = joined<kBackward>(all, next[i]);
      }
    }
    return all;
  };
  totals[threadIdx.y][threadIdx.x] = walk(none, [](int64_t, const Three&) {});
  __syncthreads();
  Three before = none;
  for (int part = 0; part < static_cast<int>(threadIdx.y); ++part)
    before = joined<kBackward>(before, totals[part][threadIdx.x]);
  walk(before, [&](int64_t n, const Three& all) {
    for (int x = 0; x < 3; ++x) place(n)[x * channels] = all.x[x];
  });
}

template <class T>
__global__ void __launch_bounds__(kLanes* kChunks) read(RunningMeanRead given) {
  const auto& task = given.all;
  const Place at(task);
  if (!at.inside) return;
  Rows<T> gate, k, v;
  gate.load(task.gate, at);
  k.load(task.k, at);
  v.load(task.v, at);
  const uint32_t kept = kept_of(task, at);
  Sums sums[2] = {sums_before(task, at, 0), sums_before(task, at, 1)};
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    if (i >= at.count) break;
    float out[2];
#pragma unroll
    for (int channel = 0; channel < 2; ++channel) {
      if (kept >> i & 1) sums[channel].add(k.get(i, channel), v.get(i, channel));
      out[channel] = sigmoid(gate.get(i, channel)) * sums[channel].mean();
    }
    store<T>(given.out, at, i, out[0], out[1]);
  }
}

// l, S and R of the first token, of the tokens of this chunk.
template <class T>
__global__ void __launch_bounds__(kLanes* kChunks) sum_gradients(RunningMeanBackward given) {
  const auto& task = given.all;
  const Place at(task);
  if (!at.inside) return;
  Rows<T> gate, k, v, gradient;
  gate.load(task.gate, at);
  k.load(task.k, at);
  v.load(task.v, at);
  gradient.load(given.gradient, at);
  const uint32_t kept = kept_of(task, at);
#pragma unroll
  for (int channel = 0; channel < 2; ++channel) {
    Sums sums = sums_before(task, at, channel);
    float start = kNothing, slopes = 0, with_means = 0;
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      if (i >= at.count) break;
      if (kept >> i & 1) sums.add(k.get(i, channel), v.get(i, channel));
      const float log_sum = sums.log_sum();
      if (i == 0) start = log_sum;
      const float slope = sums.any() ? __expf(start - log_sum) * gradient.get(i, channel) *
                                           sigmoid(gate.get(i, channel))
                                     : 0;
      slopes += slope;
      with_means += slope * sums.mean();
    }
    given.tails[at.sums(task, 0) + channel] = start;
    given.tails[at.sums(task, 1) + channel] = slopes;
    given.tails[at.sums(task, 2) + channel] = with_means;
  }
}

template <class T>
__global__ void __launch_bounds__(kLanes* kChunks) backward(RunningMeanBackward given) {
  const auto& task = given.all;
  const Place at(task);
  if (!at.inside) return;
  Rows<T> gate, k, v, gradient;
  gate.load(task.gate, at);
  k.load(task.k, at);
  v.load(task.v, at);
  gradient.load(given.gradient, at);
  const uint32_t kept = kept_of(task, at);
  float log_sum[kChunk][2], mean[kChunk][2], later[2][3];
#pragma unroll
  for (int channel = 0; channel < 2; ++channel) {
    Sums sums = sums_before(task, at, channel);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      if (kept >> i & 1) sums.add(k.get(i, channel), v.get(i, channel));
      log_sum[i][channel] = sums.log_sum();
      mean[i][channel] = sums.mean();
    }
    for (int x = 0; x < 3; ++x) later[channel][x] = given.tails[at.sums(task, x) + channel];
  }
#pragma unroll
  for (int i = kChunk - 1; i >= 0; --i) {
    if (i >= at.count) continue;
    float dgate[2], dk[2], dv[2];
#pragma unroll
    for (int channel = 0; channel < 2; ++channel) {
      const float open = sigmoid(gate.get(i, channel)), out = gradient.get(i, channel) * open,
                  now = log_sum[i][channel], slope = now == kNothing ? 0 : out;
      auto& [next, slopes, with_means] = later[channel];
      const float fading = __expf(now - next);
      next = now;
      slopes = slope + fading * slopes;
      with_means = slope * mean[i][channel] + fading * with_means;
      const float weight = kept >> i & 1 ? __expf(k.get(i, channel) - now) : 0;
      dgate[channel] = out * (1 - open) * mean[i][channel];
      dv[channel] = weight * slopes;
      dk[channel] = weight * (v.get(i, channel) * slopes - with_means);
    }
    store<T>(given.dgate, at, i, dgate[0], dgate[1]);
    store<T>(given.dk, at, i, dk[0], dk[1]);
    store<T>(given.dv, at, i, dv[0], dv[1]);
  }
}

dim3 blocks_of(const RunningMean& task) {
  return {static_cast<unsigned>((task.channels + 2 * kLanes - 1) / (2 * kLanes)),
          static_cast<unsigned>((task.chunks + kChunks - 1) / kChunks),
          static_cast<unsigned>(task.batch)};
}
template <bool kBackward>
void find_others(const RunningMean& task, float* numbers, void* stream) {
  const dim3 blocks(static_cast<unsigned>((task.channels + kLanes - 1) / kLanes),
                    static_cast<unsigned>(task.batch));
  launch(scan<kBackward>, blocks, dim3(kLanes, kParts), 0, stream, numbers, task.chunks,
         task.channels);
}

template <class F>
void with_type(Element type, const F& body) {
  if (type == Element::bfloat16) return body(__nv_bfloat16{});
  body(__half{});
}

}  // namespace

void running_mean_cuda(const RunningMeanRead& task, void* stream) noexcept {
  const dim3 threads(kLanes, kChunks);
  with_type(task.all.type, [&]<class T>(T) {
    launch(sum_up<T>, blocks_of(task.all), threads, 0, stream, task.all);
    find_others<false>(task.all, task.all.sums, stream);
    launch(read<T>, blocks_of(task.all), threads, 0, stream, task);
  });
}

void running_mean_backward_cuda(const RunningMeanBackward& task, void* stream) noexcept {
  const dim3 threads(kLanes, kChunks);
  with_type(task.all.type, [&]<class T>(T) {
    launch(sum_gradients<T>, blocks_of(task.all), threads, 0, stream, task);
    find_others<true>(task.all, task.tails, stream);
    launch(backward<T>, blocks_of(task.all), threads, 0, stream, task);
  });
}

}  // namespace longbow::kernels
