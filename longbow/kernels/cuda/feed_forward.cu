// A warp takes 16 tokens through the whole sub-layer: their products with the first matrix become
// the left factors of the second one in registers. Both matrices stay in shared memory.
#include <algorithm>

#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/cuda/feed_forward_tiles.h"

namespace longbow::kernels {
namespace feed {
namespace {

// Narrow models leave room for several blocks on a multiprocessor.
template <int kC>
constexpr int kForwardWarps = feed_forward_blocks(kC).forward_warps;
template <int kC>
constexpr int kForwardBlocks = kC > 64 ? 1 : 3;
template <int kC>
constexpr int kInputWarps = feed_forward_blocks(kC).input_warps;
template <int kC>
constexpr int kInputBlocks = kC > 64 ? 1 : 2;

// Of one warp: rows of its tokens, later of half of its results.
template <class T, int kC>
constexpr size_t kRoom = sizeof(T) * 16 * padded(kC);
static_assert(kRoom<__half, 128> >= sizeof(float) * 8 * kWideRow<128>);

template <class T, int kC>
constexpr size_t forward_bytes(int units) {
  return Matrices<T, kC>::bytes(units) + kForwardWarps<kC> * kRoom<T, kC>;
}

// Numbers of tokens from `first` on, as stage_tokens reads them.
template <class T, int kC>
__device__ __forceinline__ auto rows_from(const void* x, int64_t first, int64_t tokens) {
  const T* const own = static_cast<const T*>(x) + first * kC + own_column<kC>();
  const int64_t left = tokens - first;
  return [own, left](int row) {
    return row < left ? *reinterpret_cast<const uint4*>(own + row * kC) : uint4{};
  };
}

// Calls body(z, element) for the eight numbers from `element` on of each of a warp's 16 tokens.
template <int kC, class F>
__device__ __forceinline__ void each_result(const mma::C (&sums)[kC / 8], float* room,
                                            int64_t first, int64_t tokens, const F& body) {
  const int own = static_cast<int>(threadIdx.x) % 32 / kLanes<kC>, column = own_column<kC>();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    __syncwarp();
    spread<kC>(sums, half, room);
    __syncwarp();
#pragma unroll
    for (int turn = 0; turn < 8; turn += 32 / kLanes<kC>) {
      const int row = turn + own;
      const int64_t token = first + half * 8 + row;
      if (token >= tokens) break;
      body(read_wide(room + row * kWideRow<kC> + column), token * kC + column);
    }
  }
  __syncwarp();
}

template <class T, int kC, bool kGelu>
__global__ void __launch_bounds__(32 * kForwardWarps<kC>, kForwardBlocks<kC>)
    forward(FeedForward task) {
  constexpr int kWarps = kForwardWarps<kC>;
  unsigned char* const memory = dynamic_memory();
  const int units = whole_chunks(task.units), warp = static_cast<int>(threadIdx.x) / 32;
  const Matrices<T, kC> matrices(memory, units);
  unsigned char* const room = memory + Matrices<T, kC>::bytes(units) + warp * kRoom<T, kC>;
  T* const tokens = reinterpret_cast<T*>(room);
  matrices.load(task, 0);
  __syncthreads();

  for (int64_t first = (blockIdx.x * int64_t{kWarps} + warp) * 16; first < task.tokens;
       first += gridDim.x * int64_t{kWarps} * 16) {
    stage_tokens<T, kC, 16>(task.epsilon, rows_from<T, kC>(task.x, first, task.tokens), tokens);
    __syncwarp();
    mma::C sum[kC / 8] = {};
    for (int unit = 0; unit < units; unit += kChunk) {
      mma::C u[kChunk / 8] = {};
#pragma unroll
      for (int step = 0; step < kC / 16; ++step)
        rise(u, matrices, mma::a_of_rows(tokens + step * 16, padded(kC)), unit, step);
      curved<kGelu>(u, matrices, task.curve, unit,
                    [&](int n, int i, const Point& point) { u[n].part[i] = point.value; });
#pragma unroll
      for (int half = 0; half < kChunk / 16; ++half) {
        const auto a = mma::a_of<T>(u[2 * half], u[2 * half + 1]);
#pragma unroll
        for (int n = 0; n < kC / 8; n += 2) {
          const auto b = mma::b_of_columns(matrices.down + n * 8 * padded(units) + unit + half * 16,
                                           padded(units));
          mma::multiply<T>(sum[n], a, b.tile[0]);
          mma::multiply<T>(sum[n + 1], a, b.tile[1]);
        }
      }
    }
    const T* const bias = static_cast<const T*>(task.down_bias) + own_column<kC>();
    each_result<kC>(sum, reinterpret_cast<float*>(room), first, task.tokens,
                    [&](Eight z, int64_t element) {
                      add(z, 1, read(bias));
                      drop(z, task, element);
                      add(z, 1, read(static_cast<const T*>(task.x) + element));
                      write(static_cast<T*>(task.y) + element, z);
                    });
  }
}

// Beside them the deviations of a warp's tokens.
template <class T, int kC>
constexpr size_t kInputRoom = kRoom<T, kC> + sizeof(float) * 16;

template <class T, int kC>
constexpr size_t input_bytes(int units) {
  return Matrices<T, kC>::bytes(units) + kInputWarps<kC> * kInputRoom<T, kC>;
}

// 16 rows of the gradient of the second product; they are written too where they differ from dy.
template <class T, int kC>
__device__ __forceinline__ void stage_gradients(const FeedForwardBackward& all, int64_t first,
                                                T* rows) {
  const auto& task = all.past;
  const int column = own_column<kC>();
#pragma unroll
  for (int turn = 0; turn < 16; turn += 32 / kLanes<kC>) {
    const int row = turn + static_cast<int>(threadIdx.x) % 32 / kLanes<kC>;
    const int64_t token = first + row, element = token * kC + column;
    Eight dz = {};
    if (token < task.tokens) {
      dz = read(static_cast<const T*>(all.dy) + element);
      drop(dz, task, element);
      if (task.key) write(static_cast<T*>(all.dz) + element, dz);
    }
    write(rows + row * padded(kC) + column, dz);
  }
}

// The gradient of x from that of n, both held as 16 tokens are: n as left factors.
template <class T, int kC>
__device__ __forceinline__ void through_norm(mma::C (&dn)[kC / 8], const mma::A (&tokens)[kC / 16],
                                             const float* deviations) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = 0, product = 0;
#pragma unroll
    for (int n = 0; n < kC / 8; ++n) {
      const float2 own = mma::unpack<T>(tokens[n / 2].part[n % 2 * 2 + half]);
      const float a = dn[n].part[2 * half], b = dn[n].part[2 * half + 1];
      sum += a + b;
      product += a * own.x + b * own.y;
    }
#pragma unroll
    for (int other = 1; other < 4; other *= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, other);
      product += __shfl_xor_sync(0xffffffffu, product, other);
    }
    sum /= kC;
    product /= kC;
    const float inverse = deviations[g + 8 * half];
#pragma unroll
    for (int n = 0; n < kC / 8; ++n) {
      const float2 own = mma::unpack<T>(tokens[n / 2].part[n % 2 * 2 + half]);
      float& a = dn[n].part[2 * half];
      float& b = dn[n].part[2 * half + 1];
      a = inverse * (a - sum - own.x * product);
      b = inverse * (b - sum - own.y * product);
    }
  }
}

template <class T, int kC, bool kGelu>
__global__ void __launch_bounds__(32 * kInputWarps<kC>, kInputBlocks<kC>)
    input_gradient(FeedForwardBackward all) {
  constexpr int kWarps = kInputWarps<kC>;
  const auto& task = all.past;
  unsigned char* const memory = dynamic_memory();
  const int units = whole_chunks(task.units), warp = static_cast<int>(threadIdx.x) / 32;
  const Matrices<T, kC> matrices(memory, units);
  unsigned char* const room = memory + Matrices<T, kC>::bytes(units) + warp * kInputRoom<T, kC>;
  T* const rows = reinterpret_cast<T*>(room);
  float* const deviations = reinterpret_cast<float*>(room + kRoom<T, kC>);
  matrices.load(task, 0);
  __syncthreads();

  for (int64_t first = (blockIdx.x * int64_t{kWarps} + warp) * 16; first < task.tokens;
       first += gridDim.x * int64_t{kWarps} * 16) {
    stage_tokens<T, kC, 16>(task.epsilon, rows_from<T, kC>(task.x, first, task.tokens), rows,
                            deviations);
    __syncwarp();
    mma::A tokens[kC / 16];
#pragma unroll
    for (int step = 0; step < kC / 16; ++step)
      tokens[step] = mma::a_of_rows(rows + step * 16, padded(kC));
    __syncwarp();
    stage_gradients<T, kC>(all, first, rows);
    __syncwarp();
    mma::C dn[kC / 8] = {};
    for (int unit = 0; unit < units; unit += kChunk) {
      mma::C u[kChunk / 8] = {}, du[kChunk / 8] = {};
#pragma unroll
      for (int step = 0; step < kC / 16; ++step) {
        rise(u, matrices, tokens[step], unit, step);
        fall(du, matrices, mma::a_of_rows(rows + step * 16, padded(kC)), unit, step);
      }
      curved<kGelu>(u, matrices, task.curve, unit,
                    [&](int n, int i, const Point& point) { du[n].part[i] *= point.slope; });
#pragma unroll
      for (int half = 0; half < kChunk / 16; ++half) {
        const auto a = mma::a_of<T>(du[2 * half], du[2 * half + 1]);
#pragma unroll
        for (int n = 0; n < kC / 8; n += 2) {
          const auto b =
              mma::b_of_rows(matrices.up + (unit + half * 16) * padded(kC) + n * 8, padded(kC));
          mma::multiply<T>(dn[n], a, b.tile[0]);
          mma::multiply<T>(dn[n + 1], a, b.tile[1]);
        }
      }
    }
    through_norm<T, kC>(dn, tokens, deviations);
    each_result<kC>(dn, reinterpret_cast<float*>(room), first, task.tokens,
                    [&](Eight dx, int64_t element) {
                      add(dx, 1, read(static_cast<const T*>(all.dy) + element));
                      write(static_cast<T*>(all.dx) + element, dx);
                    });
  }
}

// The gradients of the weights: a block has some of the units, and takes 128 tokens at a time.
constexpr int kSumWarps = 16, kSumThreads = 32 * kSumWarps, kSumTokens = 128;
template <int kC>
constexpr int kSlab =
    feed_forward_blocks(kC).slab;  // units of a block: as many sums as its threads can hold

template <class T, int kC>
constexpr size_t sum_bytes() {
  return Matrices<T, kC>::bytes(kSlab<kC>) +
         sizeof(T) * kSumTokens * 2 * (padded(kC) + padded(kSlab<kC>) + kC);
}

// Rows of the next tokens on their way to shared memory. A thread reads what it has copied itself.
template <class T, int kC>
struct Arriving {
  T* rows;  // [kSumTokens, kC]

  __device__ void ask(const void* from, int64_t first, int64_t tokens) const {
    const int warp = static_cast<int>(threadIdx.x) / 32,
              own = static_cast<int>(threadIdx.x) % 32 / kLanes<kC>, column = own_column<kC>();
#pragma unroll
    for (int turn = 0; turn < 8; turn += 32 / kLanes<kC>) {
      const int row = warp * 8 + turn + own;
      const bool there = first + row < tokens;
      const T* const at = static_cast<const T*>(from) + (there ? (first + row) * kC + column : 0);
      mma::copy_async(rows + row * kC + column, at, there);
    }
  }
  // Of the eight rows of a warp.
  __device__ uint4 part(int row) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return *reinterpret_cast<const uint4*>(rows + (warp * 8 + row) * kC + own_column<kC>());
  }
};

template <class T, int kC, bool kGelu>
__global__ void __launch_bounds__(kSumThreads, 1)
    weight_gradient(FeedForwardBackward all, int slabs, int64_t size) {
  const auto& task = all.past;
  constexpr int kUnits = kSlab<kC>, kStride = padded(kC), kWide = padded(kUnits);
  unsigned char* const memory = dynamic_memory();
  const int slab = static_cast<int>(blockIdx.x) % slabs, warp = static_cast<int>(threadIdx.x) / 32,
            lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4,
            column = own_column<kC>();
  const int64_t part = blockIdx.x / slabs;
  const Matrices<T, kC> matrices(memory, kUnits);
  T* const tokens = reinterpret_cast<T*>(memory + Matrices<T, kC>::bytes(kUnits));
  T* const gradients = tokens + kSumTokens * kStride;
  T* const du_rows = gradients + kSumTokens * kStride;
  T* const a_rows = du_rows + kSumTokens * kWide;
  const Arriving<T, kC> x_rows = {a_rows + kSumTokens * kWide},
                        dz_rows = {x_rows.rows + kSumTokens * kC};
  const auto ask = [&](int64_t first) {
    x_rows.ask(task.x, first, task.tokens);
    dz_rows.ask(all.dz, first, task.tokens);
    mma::commit_copies();
  };
  ask(part * kSumTokens);
  matrices.load(task, slab * kUnits);

  // Tile m of the units with 32 channels.
  constexpr int kTiles = kUnits / 16;
  const int m = warp % kTiles * 16, channel = warp / kTiles * 32;
  mma::C up[4] = {}, down[4] = {}, bias = {};
  Eight dz_sum = {};
  const uint32_t one = g == 0 ? mma::pack<T>(1, 1) : 0;
  const mma::B ones = {{one, one}};
  for (int64_t first = part * kSumTokens; first < task.tokens; first += all.parts * kSumTokens) {
    __syncthreads();
    mma::await_copies<0>();
    stage_tokens<T, kC, 8>(
        task.epsilon, [&](int row) { return x_rows.part(row); }, tokens + warp * 8 * kStride);
#pragma unroll
    for (int turn = 0; turn < 8; turn += 32 / kLanes<kC>) {
      const int row = turn + lane / kLanes<kC>;
      const auto packed = dz_rows.part(row);
      add(dz_sum, 1, read(reinterpret_cast<const T*>(&packed)));
      *reinterpret_cast<uint4*>(gradients + (warp * 8 + row) * kStride + column) = packed;
    }
    if (first + all.parts * kSumTokens < task.tokens) ask(first + all.parts * kSumTokens);
    __syncthreads();
    const int row = warp % 8 * 16;
#pragma unroll
    for (int chunk = 0; chunk < kUnits / 2; chunk += kChunk) {
      const int unit = warp / 8 * (kUnits / 2) + chunk;
      mma::C u[kChunk / 8] = {}, du[kChunk / 8] = {};
#pragma unroll
      for (int step = 0; step < kC / 16; ++step) {
        rise(u, matrices, mma::a_of_rows(tokens + row * kStride + step * 16, kStride), unit, step);
        fall(du, matrices, mma::a_of_rows(gradients + row * kStride + step * 16, kStride), unit,
             step);
      }
      curved<kGelu>(u, matrices, task.curve, unit, [&](int n, int i, const Point& point) {
        u[n].part[i] = point.value;
        du[n].part[i] *= point.slope;
      });
#pragma unroll
      for (int n = 0; n < kChunk / 8; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int place = (row + g + 8 * half) * kWide + unit + n * 8 + 2 * t;
          *reinterpret_cast<uint32_t*>(a_rows + place) =
              mma::pack<T>(u[n].part[2 * half], u[n].part[2 * half + 1]);
          *reinterpret_cast<uint32_t*>(du_rows + place) =
              mma::pack<T>(du[n].part[2 * half], du[n].part[2 * half + 1]);
        }
    }
    __syncthreads();
#pragma unroll 2
    for (int k = 0; k < kSumTokens; k += 16) {
      const auto du = mma::a_of_columns(du_rows + k * kWide + m, kWide),
                 a = mma::a_of_columns(a_rows + k * kWide + m, kWide);
      mma::multiply<T>(bias, du, ones);
#pragma unroll
      for (int n = 0; n < 4; n += 2) {
        const int place = k * kStride + channel + n * 8;
        const auto x = mma::b_of_rows(tokens + place, kStride),
                   dz = mma::b_of_rows(gradients + place, kStride);
        mma::multiply<T>(up[n], du, x.tile[0]);
        mma::multiply<T>(up[n + 1], du, x.tile[1]);
        mma::multiply<T>(down[n], a, dz.tile[0]);
        mma::multiply<T>(down[n + 1], a, dz.tile[1]);
      }
    }
  }

  float* const sums = all.sums + part * size;
  const int64_t units = int64_t{slabs} * kUnits, unit = slab * kUnits + m + g;
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* const to = sums + (unit + 8 * half) * kC + channel + n * 8 + 2 * t;
      *reinterpret_cast<float2*>(to) = {up[n].part[2 * half], up[n].part[2 * half + 1]};
      *reinterpret_cast<float2*>(to + units * kC) = {down[n].part[2 * half],
                                                     down[n].part[2 * half + 1]};
    }
  float* const bias_sums = sums + 2 * units * kC;
  if (channel == 0 && t == 0) {
    bias_sums[unit] = bias.part[0];
    bias_sums[unit + 8] = bias.part[2];
  }
  // Of the channels: over the threads of a warp, then warp after warp.
  __syncthreads();
  float* const by_warp = reinterpret_cast<float*>(tokens);
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int other = kLanes<kC>; other < 32; other *= 2)
      dz_sum.value[j] += __shfl_xor_sync(0xffffffffu, dz_sum.value[j], other);
  if (lane < kLanes<kC>)
#pragma unroll
    for (int j = 0; j < 8; ++j) by_warp[warp * kC + column + j] = dz_sum.value[j];
  __syncthreads();
  const int own = static_cast<int>(threadIdx.x);
  if (slab > 0 || own >= kC) return;
  float sum = 0;
  for (int i = 0; i < kSumWarps; ++i) sum += by_warp[i * kC + own];
  bias_sums[units + own] = sum;
}

constexpr int kFoldThreads = 256;

// The sum of all parts, four numbers of it to a thread, which has the next eight parts on their way
// while it adds.
__global__ void __launch_bounds__(kFoldThreads) fold(FeedForwardWeights all, int64_t size) {
  const int64_t own = blockIdx.x * int64_t{kFoldThreads} + threadIdx.x;
  if (own >= size / 4) return;
  const auto* const from = reinterpret_cast<const float4*>(all.sums) + own;
  float4 sum = {};
  for (int64_t first = 0; first < all.parts; first += 8) {
    float4 next[8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
      next[i] = first + i < all.parts ? from[(first + i) * (size / 4)] : float4{};
#pragma unroll
    for (int i = 0; i < 8; ++i)
      sum = {sum.x + next[i].x, sum.y + next[i].y, sum.z + next[i].z, sum.w + next[i].w};
  }
  reinterpret_cast<float4*>(all.sum)[own] = sum;
}

// A block has eight channels.
template <class T>
__global__ void __launch_bounds__(kFoldThreads) weights(FeedForwardWeights all, int64_t units) {
  const auto& task = all.past;
  const int width = static_cast<int>(task.width), channel = static_cast<int>(threadIdx.x) % 8,
            column = static_cast<int>(blockIdx.x) * 8 + channel,
            own = static_cast<int>(threadIdx.x) / 8;
  constexpr int kBeside = kFoldThreads / 8;
  const float *const up = all.sum, *const down = up + units * width,
                     *const bias = down + units * width;
  const auto weight = static_cast<float>(static_cast<const T*>(task.norm_weight)[column]),
             offset = static_cast<float>(static_cast<const T*>(task.norm_bias)[column]);
  float dweight = 0, doffset = 0;
  for (int64_t unit = own; unit < task.units; unit += kBeside) {
    const auto w = static_cast<float>(static_cast<const T*>(task.up)[unit * width + column]);
    const float sum = up[unit * width + column];
    dweight += w * sum;
    doffset += w * bias[unit];
    static_cast<T*>(all.dup)[unit * width + column] =
        static_cast<T>(weight * sum + offset * bias[unit]);
    static_cast<T*>(all.ddown)[column * task.units + unit] =
        static_cast<T>(down[unit * width + column]);
    if (column == 0) static_cast<T*>(all.dup_bias)[unit] = static_cast<T>(bias[unit]);
  }
  __shared__ float parts[2][kFoldThreads];
  parts[0][threadIdx.x] = dweight;
  parts[1][threadIdx.x] = doffset;
  __syncthreads();
  if (own > 0) return;
  for (int i = 1; i < kBeside; ++i) {
    dweight += parts[0][i * 8 + channel];
    doffset += parts[1][i * 8 + channel];
  }
  static_cast<T*>(all.dnorm_weight)[column] = static_cast<T>(dweight);
  static_cast<T*>(all.dnorm_bias)[column] = static_cast<T>(doffset);
  static_cast<T*>(all.ddown_bias)[column] = static_cast<T>(bias[units + column]);
}

constexpr int kMultiprocessors = 132;

template <class F>
void with_shape(const FeedForward& task, const F& body) {
  const auto with_curve = [&]<class T, int kC>() {
    if (task.curve == Curve::gelu) return body.template operator()<T, kC, true>();
    body.template operator()<T, kC, false>();
  };
  const auto with_type = [&]<class T>() {
    if (task.width == 64) return with_curve.template operator()<T, 64>();
    with_curve.template operator()<T, 128>();
  };
  if (task.type == Element::bfloat16) return with_type.template operator()<__nv_bfloat16>();
  with_type.template operator()<__half>();
}

unsigned blocks_for(int64_t tokens, int warps, int resident) {
  const int64_t most = int64_t{kMultiprocessors} * resident,
                needed = (tokens + 16 * warps - 1) / (16 * warps);
  return static_cast<unsigned>(needed < most ? needed : most);
}

// What has_feed_forward_kernel asks a device for.
template <int kC>
constexpr bool is_most(int units) {
  return feed_forward_memory(kC, units) ==
         std::max({forward_bytes<__half, kC>(units), input_bytes<__half, kC>(units),
                   sum_bytes<__half, kC>()});
}
static_assert(is_most<64>(128) && is_most<64>(512) && is_most<128>(64) && is_most<128>(256));

int64_t slab_of(int64_t width) {
  return feed_forward_blocks(width).slab;
}
int64_t slabs_of(int64_t width, int64_t units) {
  return (units + slab_of(width) - 1) / slab_of(width);
}

}  // namespace
}  // namespace feed

int64_t feed_forward_sums(int64_t width, int64_t units) noexcept {
  const int64_t whole = feed::slabs_of(width, units) * feed::slab_of(width);
  return whole * (2 * width + 1) + width;
}

int64_t feed_forward_parts(int64_t tokens, int64_t width, int64_t units) noexcept {
  const int64_t most = feed::kMultiprocessors / feed::slabs_of(width, units),
                needed = (tokens + feed::kSumTokens - 1) / feed::kSumTokens;
  return needed < most ? needed : most;
}

void feed_forward_cuda(const FeedForward& task, void* stream) noexcept {
  feed::with_shape(task, [&]<class T, int kC, bool kGelu>() {
    constexpr int kWarps = feed::kForwardWarps<kC>;
    launch(feed::forward<T, kC, kGelu>,
           feed::blocks_for(task.tokens, kWarps, feed::kForwardBlocks<kC>), 32 * kWarps,
           feed::forward_bytes<T, kC>(feed::whole_chunks(task.units)), stream, task);
  });
}

void feed_forward_backward_cuda(const FeedForwardBackward& all, void* stream) noexcept {
  const auto& task = all.past;
  const int64_t slabs = feed::slabs_of(task.width, task.units);
  feed::with_shape(task, [&]<class T, int kC, bool kGelu>() {
    constexpr int kWarps = feed::kInputWarps<kC>;
    launch(feed::input_gradient<T, kC, kGelu>,
           feed::blocks_for(task.tokens, kWarps, feed::kInputBlocks<kC>), 32 * kWarps,
           feed::input_bytes<T, kC>(feed::whole_chunks(task.units)), stream, all);
    launch(feed::weight_gradient<T, kC, kGelu>, static_cast<unsigned>(slabs * all.parts),
           feed::kSumThreads, feed::sum_bytes<T, kC>(), stream, all, static_cast<int>(slabs),
           feed_forward_sums(task.width, task.units));
  });
}

void feed_forward_weights_cuda(const FeedForwardWeights& all, void* stream) noexcept {
  const auto& task = all.past;
  const int64_t units = feed::slabs_of(task.width, task.units) * feed::slab_of(task.width);
  const int64_t size = feed_forward_sums(task.width, task.units),
                blocks = (size / 4 + feed::kFoldThreads - 1) / feed::kFoldThreads;
  launch(feed::fold, static_cast<unsigned>(blocks), feed::kFoldThreads, 0, stream, all, size);
  const auto run = [&]<class T>() {
    launch(feed::weights<T>, static_cast<unsigned>(task.width / 8), feed::kFoldThreads, 0, stream,
           all, units);
  };
  if (task.type == Element::bfloat16) return run.template operator()<__nv_bfloat16>();
  run.template operator()<__half>();
}

}  // namespace longbow::kernels
