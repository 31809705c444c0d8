#include "longbow/kernels/silu_taps.h"

#include "longbow/kernels/cuda/feature_tiles.h"
#include "longbow/kernels/cuda/sigmoid.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 128, kWide = 4;

__device__ inline void spread(const uint2& pack, float (&x)[kWide]) {
  const float2 left = mma::unpack<Number>(pack.x), right = mma::unpack<Number>(pack.y);
  x[0] = left.x, x[1] = left.y, x[2] = right.x, x[3] = right.y;
}
__device__ inline uint2 packed(const float (&x)[kWide]) {
  return {mma::pack<Number>(x[0], x[1]), mma::pack<Number>(x[2], x[3])};
}

// A thread's channels and span. Those without channels go along, for what threads do together.
struct Place {
  int64_t b, channel;
  int first, end, tokens;
  bool there;

  __device__ explicit Place(const SiluTaps& task)
      : b(blockIdx.z),
        channel((blockIdx.x * int64_t{kThreads} + static_cast<int>(threadIdx.x)) * kWide),
        first(static_cast<int>(blockIdx.y) * static_cast<int>(kTapSpan)),
        end(static_cast<int>(first + kTapSpan < task.tokens ? first + kTapSpan : task.tokens)),
        tokens(static_cast<int>(task.tokens)),
        there(channel < task.channels) {}
};

// Goes from token to token of a thread's channels.
struct Walk {
  Number* at;
  int64_t step;
  int token, tokens;  // none = 0

  __device__ Walk(const TokenRows<>& rows, const Place& place, int from)
      : at(static_cast<Number*>(rows.data) + place.b * rows.batch + from * rows.token +
           place.channel),
        step(rows.token),
        token(from),
        tokens(place.there ? place.tokens : 0) {}
  // Zeros outside of the sequence.
  __device__ uint2 load() {
    const bool inside = static_cast<unsigned>(token) < static_cast<unsigned>(tokens);
    const uint2 pack = inside ? *reinterpret_cast<const uint2*>(at) : uint2{0, 0};
    move();
    return pack;
  }
  __device__ void store(const float (&x)[kWide], bool wanted) {
    if (wanted && tokens > 0) *reinterpret_cast<uint2*>(at) = packed(x);
    move();
  }
  __device__ void move() {
    at += step;
    ++token;
  }
};

template <int K>
struct Taps {
  float tap[K][kWide] = {}, bias[kWide] = {};

  __device__ Taps(const SiluTaps& task, const Place& place) {
    if (place.there)
#pragma unroll
      for (int e = 0; e < kWide; ++e) {
#pragma unroll
        for (int k = 0; k < K; ++k) tap[k][e] = task.taps[k * task.channels + place.channel + e];
        bias[e] = task.bias[place.channel + e];
      }
  }
  // Of the last K tokens, the newest of them in place `newest`.
  __device__ void over(float (&sum)[kWide], const float (&window)[K][kWide], int newest) const {
#pragma unroll
    for (int e = 0; e < kWide; ++e) {
      sum[e] = bias[e];
#pragma unroll
      for (int k = 0; k < K; ++k) sum[e] += tap[k][e] * window[(newest + 1 + k) % K][e];
    }
  }
  // Of the oldest of them in the other direction.
  __device__ void back_over(float (&sum)[kWide], const float (&window)[K][kWide],
                            int newest) const {
#pragma unroll
    for (int e = 0; e < kWide; ++e) {
      sum[e] = bias[e];
#pragma unroll
      for (int k = 0; k < K; ++k) sum[e] += tap[k][e] * window[(newest + K - k) % K][e];
    }
  }
};

// What a thread's channels become after their sums, and its way back.
template <bool kUnit>
struct Activation {
  int lanes;  // threads of a part
  bool own;   // whether these channels are of one

  __device__ Activation(const SiluTaps& task, const Place& place)
      : lanes(static_cast<int>(task.unit_width / kWide)), own(place.channel < task.unit_channels) {}
  __device__ float over_part(float sum) const {
    for (int other = 1; other < lanes; other *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
    return sum;
  }
  // In place.
  __device__ void forward(float (&x)[kWide]) const {
    float squares = 0;
#pragma unroll
    for (float& number : x) {
      number *= sigmoid(number);
      squares += number * number;
    }
    if constexpr (kUnit) {
      squares = over_part(squares);
      const float factor = own ? rsqrtf(squares + kUnitEpsilon) : 1;
#pragma unroll
      for (float& number : x) number *= factor;
    }
  }
  // The gradient of the sums x in place of that of what they become.
  __device__ void backward(float (&dy)[kWide], const float (&x)[kWide]) const {
    float factor = 1, along = 0;
    if constexpr (kUnit) {
      float squares = 0;
#pragma unroll
      for (int e = 0; e < kWide; ++e) {
        const float y = x[e] * sigmoid(x[e]);
        squares += y * y;
        along += y * dy[e];
      }
      squares = over_part(squares);
      along = over_part(along);
      if (own) factor = rsqrtf(squares + kUnitEpsilon);
      along = own ? along * factor * factor : 0;
    }
#pragma unroll
    for (int e = 0; e < kWide; ++e) {
      const float s = sigmoid(x[e]);
      dy[e] = factor * (dy[e] - along * x[e] * s) * s * (1 + x[e] * (1 - s));
    }
  }
};

// Partial sums of a span: dtaps and, last, dbias.
template <int K>
__device__ inline void put_sums(float* sums, const SiluTaps& task, const Place& place,
                                const float (&dtaps)[K][kWide], const float (&dbias)[kWide]) {
  if (!place.there) return;
  float* to = sums + (place.b * gridDim.y + blockIdx.y) * (K + 1) * task.channels + place.channel;
#pragma unroll
  for (int e = 0; e < kWide; ++e) {
#pragma unroll
    for (int k = 0; k < K; ++k) to[k * task.channels + e] = dtaps[k][e];
    to[K * task.channels + e] = dbias[e];
  }
}

// The K - 1 tokens before the span.
template <int K>
__device__ inline void begin(float (&window)[K][kWide], Walk& z) {
#pragma unroll
  for (int k = 0; k < K - 1; ++k) spread(z.load(), window[k + 1]);
}

// The next K tokens, which arrive while those before are worked on.
template <int K>
struct Ahead {
  uint2 pack[K];

  __device__ explicit Ahead(Walk& from) {
#pragma unroll
    for (uint2& next : pack) next = from.load();
  }
  __device__ void take(int k, float (&x)[kWide], Walk& from) {
    spread(pack[k], x);
    pack[k] = from.load();
  }
};

// The window is a ring: K tokens are unrolled, so that its places are constants.
template <int K, bool kUnit>
__global__ void __launch_bounds__(kThreads) forward(SiluTaps task) {
  const Place place(task);
  const Taps<K> taps(task, place);
  const Activation<kUnit> activation(task, place);
  float window[K][kWide];
  Walk from(task.z, place, place.first - (K - 1)), to(task.y, place, place.first);
  begin<K>(window, from);
  Ahead<K> z(from);
  for (int first = place.first; first < place.end; first += K)
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (first + k >= place.end) break;
      z.take(k, window[k], from);
      float y[kWide];
      taps.over(y, window, k);
      activation.forward(y);
      to.store(y, true);
    }
}

template <int K, bool kUnit>
__global__ void __launch_bounds__(kThreads, 4) backward(SiluTapsBackward given) {
  const auto& task = given.past;
  const Place place(task);
  const Taps<K> taps(task, place);
  const Activation<kUnit> activation(task, place);
  float window[K][kWide], slopes[K][kWide] = {}, dtaps[K][kWide] = {}, dbias[kWide] = {};
  Walk from(task.z, place, place.first - (K - 1)), gradients(given.dy, place, place.first),
      to(given.dz, place, place.first - (K - 1));
  begin<K>(window, from);
  // K - 1 tokens behind the span, whose gradients reach into it.
  const int last = place.end + K - 1;
  Ahead<K> z(from), dy(gradients);
  for (int first = place.first; first < last; first += K)
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int token = first + k;
      if (token >= last) break;
      float sum[kWide], dz[kWide] = {};
      z.take(k, window[k], from);
      dy.take(k, slopes[k], gradients);
      taps.over(sum, window, k);
      activation.backward(slopes[k], sum);
      const float own = token < place.end ? 1 : 0;
#pragma unroll
      for (int e = 0; e < kWide; ++e) {
        const float slope = own * slopes[k][e];
        dbias[e] += slope;
        // The token K - 1 before has met all that read it: itself with the last tap first.
#pragma unroll
        for (int j = 0; j < K; ++j) {
          dtaps[j][e] += slope * window[(k + 1 + j) % K][e];
          dz[e] += taps.tap[j][e] * slopes[(k + K - j) % K][e];
        }
      }
      to.store(dz, token - (K - 1) >= place.first);
    }
  put_sums<K>(given.sums, task, place, dtaps, dbias);
}

// Where a window is complete, so is the other direction's of its oldest token.
template <int K, bool kUnit>
__global__ void __launch_bounds__(kThreads) forward_both(SiluTapsBoth given) {
  const auto& task = given.forth;
  const Place place(task);
  const Taps<K> taps(task, place);
  const Activation<kUnit> activation(task, place);
  float window[K][kWide];
  Walk from(task.z, place, place.first - (K - 1)), forth(task.y, place, place.first),
      back(given.back, place, place.first - (K - 1));
  begin<K>(window, from);
  const int last = place.end + K - 1;
  Ahead<K> z(from);
  for (int first = place.first; first < last; first += K)
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int token = first + k;
      if (token >= last) break;
      z.take(k, window[k], from);
      float y[kWide];
      taps.over(y, window, k);
      activation.forward(y);
      forth.store(y, token < place.end);
      taps.back_over(y, window, k);
      activation.forward(y);
      back.store(y, token - (K - 1) >= place.first);
    }
}

// The other direction's slopes are those of the oldest tokens of the last K windows.
template <int K, bool kUnit>
__global__ void __launch_bounds__(kThreads, 3) backward_both(SiluTapsBothBackward given) {
  const auto& task = given.past;
  const Place place(task);
  const Taps<K> taps(task, place);
  const Activation<kUnit> activation(task, place);
  float window[K][kWide], slopes[K][kWide] = {}, others[K][kWide] = {}, dtaps[K][kWide] = {},
                          dbias[kWide] = {};
  Walk from(task.z, place, place.first - (K - 1)), gradients(given.dforth, place, place.first),
      other_gradients(given.dback, place, place.first - (K - 1)),
      to(given.dz, place, place.first - (K - 1));
  begin<K>(window, from);
  const int last = place.end + K - 1;
  Ahead<K> z(from), dforth(gradients), dback(other_gradients);
  for (int first = place.first; first < last; first += K)
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int token = first + k, oldest = token - (K - 1);
      if (token >= last) break;
      float sum[kWide], dz[kWide] = {};
      z.take(k, window[k], from);
      dforth.take(k, slopes[k], gradients);
      dback.take(k, others[k], other_gradients);
      taps.over(sum, window, k);
      activation.backward(slopes[k], sum);
      taps.back_over(sum, window, k);
      activation.backward(others[k], sum);
      const float own = token < place.end ? 1 : 0, own_back = oldest >= place.first ? 1 : 0;
#pragma unroll
      for (int e = 0; e < kWide; ++e) {
        const float slope = own * slopes[k][e], other = own_back * others[k][e];
        dbias[e] += slope + other;
        // One product a sum, so that each is a single instruction.
#pragma unroll
        for (int j = 0; j < K; ++j) {
          dtaps[j][e] += slope * window[(k + 1 + j) % K][e];
          dtaps[j][e] += other * window[(k + K - j) % K][e];
          dz[e] += taps.tap[j][e] * (slopes[(k + K - j) % K][e] + others[(k + 1 + j) % K][e]);
        }
      }
      to.store(dz, oldest >= place.first);
    }
  put_sums<K>(given.sums, task, place, dtaps, dbias);
}

// Calls body with K and whether there are parts of length 1.
template <class F>
void with_taps(const SiluTaps& task, const F& body) {
  const auto with = [&]<int K>() {
    task.unit_channels > 0 ? body.template operator()<K, true>()
                           : body.template operator()<K, false>();
  };
  switch (task.count) {
    case 1:
      return with.template operator()<1>();
    case 2:
      return with.template operator()<2>();
    case 3:
      return with.template operator()<3>();
    default:
      return with.template operator()<4>();
  }
}

dim3 blocks_of(const SiluTaps& task) {
  const int64_t wide = kThreads * kWide;
  return {static_cast<unsigned>((task.channels + wide - 1) / wide),
          static_cast<unsigned>(task.spans()), static_cast<unsigned>(task.batch)};
}

}  // namespace

void silu_taps_cuda(const SiluTaps& task, void* stream) noexcept {
  with_taps(task, [&]<int K, bool kUnit>() {
    launch(forward<K, kUnit>, blocks_of(task), kThreads, 0, stream, task);
  });
}

void silu_taps_both_cuda(const SiluTapsBoth& task, void* stream) noexcept {
  with_taps(task.forth, [&]<int K, bool kUnit>() {
    launch(forward_both<K, kUnit>, blocks_of(task.forth), kThreads, 0, stream, task);
  });
}

void silu_taps_both_backward_cuda(const SiluTapsBothBackward& task, void* stream) noexcept {
  with_taps(task.past, [&]<int K, bool kUnit>() {
    launch(backward_both<K, kUnit>, blocks_of(task.past), kThreads, 0, stream, task);
  });
}

void silu_taps_backward_cuda(const SiluTapsBackward& task, void* stream) noexcept {
  with_taps(task.past, [&]<int K, bool kUnit>() {
    launch(backward<K, kUnit>, blocks_of(task.past), kThreads, 0, stream, task);
  });
}

}  // namespace longbow::kernels
