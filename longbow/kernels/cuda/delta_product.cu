// The inverses of chunks, the walk over them, and what tokens read.
#include "longbow/kernels/cuda/delta_tiles.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels {
namespace {

using mma::padded;

struct InverseMemory {
  static constexpr int kWide = kDeltaTokens + 4;  // from row to row of the system
  static constexpr size_t kBytes =
      sizeof(Number) * kDeltaTile + sizeof(float) * (kDeltaTokens * kWide + 2 * kDeltaTokens);
  Number* k;
  float *system, *decays, *beta;  // [64, 64], [64], [64]

  __device__ explicit InverseMemory(unsigned char* shared)
      : k(reinterpret_cast<Number*>(shared)),
        system(reinterpret_cast<float*>(k + kDeltaTile)),
        decays(system + kDeltaTokens * kWide),
        beta(decays + kDeltaTokens) {}
};

// One warp: a thread has two tokens.
__device__ void add_decays(float* to, const DeltaHeads& heads, const DeltaPlace& place,
                           int64_t first) {
  constexpr float kNothing = -150;  // 2^x is 0 from here on
  const int lane = static_cast<int>(threadIdx.x);
  float own[2] = {};
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (const int64_t token = first + lane * 2 + i; heads.log_decay.data && token < heads.tokens) {
      const float decay = *place.number(heads.log_decay, token) * kLog2E;
      own[i] = decay < kNothing ? kNothing : decay;
    }
  float sum = own[0] + own[1];
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float other = __shfl_sync(0xffffffffu, sum, lane >= step ? lane - step : lane);
    if (lane >= step) sum += other;
  }
  to[lane * 2] = sum - own[1];
  to[lane * 2 + 1] = sum;
}

// A column of (I + M)^-1 by substitution, in the registers of one thread.
__device__ void solve(const float* system, int column, float (&t)[kDeltaTokens]) {
#pragma unroll
  for (int i = 0; i < kDeltaTokens; ++i) {
    float sum[4] = {i == column ? 1.0f : 0.0f, 0, 0, 0};
#pragma unroll
    for (int j = 0; j < i; j += 4) {
      const float4 m = *reinterpret_cast<const float4*>(system + i * InverseMemory::kWide + j);
      sum[0] -= m.x * t[j];
      if (j + 1 < i) sum[1] -= m.y * t[j + 1];
      if (j + 2 < i) sum[2] -= m.z * t[j + 2];
      if (j + 3 < i) sum[3] -= m.w * t[j + 3];
    }
    t[i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
}

__global__ void __launch_bounds__(kDeltaThreads) inverse(DeltaWays<DeltaHeads> tasks) {
  const auto& task = tasks.way[blockIdx.z];
  unsigned char* const shared = dynamic_memory();
  const InverseMemory memory(shared);
  const int64_t chunk = blockIdx.x, first = chunk * kDeltaTokens;
  const DeltaPlace place(task, blockIdx.y, gridDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  const Lane at;
  copy_rows<D>(memory.k, place.rows(task.k), first, task.tokens, task.width);
  mma::commit_copies();
  if (thread < 32) add_decays(memory.decays, task, place, first);
  if (thread < kDeltaTokens)
    memory.beta[thread] =
        first + thread < task.tokens ? *place.number(task.beta, first + thread) : 0;
  mma::await_copies<0>();
  __syncthreads();
  if (thread < kDeltaTokens) place.decays(task, chunk)[thread] = memory.decays[thread];
  mma::A left[D / 16];
  left_of_rows<D>(left, memory.k + at.own * padded(D));
#pragma unroll
  for (int part = 0; part < kDeltaWarps; ++part)
    if (part <= at.warp) {
      mma::C pairs[2] = {};
      times_columns<D>(pairs, left, memory.k + part * 16 * padded(D));
      fade_pairs<Seen::earlier>(pairs, part, memory.decays, 1);
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = at.own + at.g + i / 2 * 8, column = part * 16 + n * 8 + 2 * at.t + i % 2;
          memory.system[row * InverseMemory::kWide + column] = pairs[n].part[i] * memory.beta[row];
        }
    }
  __syncthreads();
  if (thread < kDeltaTokens) {
    float t[kDeltaTokens];
    solve(memory.system, thread, t);
#pragma unroll
    for (int i = 0; i < kDeltaTokens; ++i)  // in the place of k
      memory.k[i * padded(D) + thread] = __float2bfloat16(t[i] * memory.beta[thread]);
  }
  __syncthreads();
  const HeadRows to = place.inverse(task, chunk);
  for (int i = thread; i < kDeltaTokens * D / 8; i += kDeltaThreads)
    *reinterpret_cast<uint4*>(to.data + i * 8) =
        *reinterpret_cast<const uint4*>(memory.k + i / (D / 8) * padded(D) + i % (D / 8) * 8);
}

constexpr int kColumns = 32;  // of the sums, those of a block

struct WalkMemory {
  static constexpr int kNarrow = kDeltaTokens * padded(kColumns),
                       kBuffer = 2 * kDeltaTile + kNarrow;
  static constexpr size_t kBytes =
      sizeof(Number) * (2 * kBuffer + 3 * kNarrow) + sizeof(float) * 2 * kDeltaTokens;
  Number *buffers, *sums, *rest, *u;  // [64, 32] each, behind the buffers
  float* all_decays;

  __device__ explicit WalkMemory(unsigned char* shared)
      : buffers(reinterpret_cast<Number*>(shared)),
        sums(buffers + 2 * kBuffer),
        rest(sums + kNarrow),
        u(rest + kNarrow),
        all_decays(reinterpret_cast<float*>(u + kNarrow)) {}
  __device__ Number* k(int64_t chunk) const { return buffers + chunk % 2 * kBuffer; }
  __device__ Number* inverse(int64_t chunk) const { return k(chunk) + kDeltaTile; }
  __device__ Number* v(int64_t chunk) const { return inverse(chunk) + kDeltaTile; }
  __device__ float* decays(int64_t chunk) const { return all_decays + chunk % 2 * kDeltaTokens; }
};

// The sums' own columns from and to float32 without padding.
__device__ void read_sums(mma::C (&sums)[kColumns / 8], const float* from, const DeltaPlace& place,
                          int64_t width, int64_t depth, int column) {
  const Lane at;
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t row = at.own + at.g + i / 2 * 8, d = column + n * 8 + 2 * at.t + i % 2;
      const bool there = from && row < width && d < depth;
      sums[n].part[i] = there ? from[(place.group * width + row) * depth + d] : 0;
    }
}
__device__ void write_sums(const mma::C (&sums)[kColumns / 8], float* to, const DeltaPlace& place,
                           int64_t width, int64_t depth, int column) {
  const Lane at;
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t row = at.own + at.g + i / 2 * 8, d = column + n * 8 + 2 * at.t + i % 2;
      if (row < width && d < depth) to[(place.group * width + row) * depth + d] = sums[n].part[i];
    }
}

__device__ HeadRows from_column(HeadRows rows, int column) {
  rows.data += column;
  return rows;
}

__global__ void __launch_bounds__(kDeltaThreads) walk(DeltaWays<DeltaWalk> tasks) {
  const auto& task = tasks.way[blockIdx.z];
  unsigned char* const shared = dynamic_memory();
  const WalkMemory memory(shared);
  const auto& heads = task.heads;
  const int64_t chunks = (heads.tokens + kDeltaTokens - 1) / kDeltaTokens;
  const DeltaPlace place(heads, blockIdx.y, chunks);
  const int column = static_cast<int>(blockIdx.x) * kColumns;
  const Lane at;
  const auto start = [&](int64_t chunk) {
    const int64_t first = chunk * kDeltaTokens;
    if (chunk < chunks) {
      copy_rows<D>(memory.k(chunk), place.rows(heads.k), first, heads.tokens, heads.width);
      copy_rows<D>(memory.inverse(chunk), place.inverse(heads, chunk), 0, kDeltaTokens, D);
      copy_rows<kColumns>(memory.v(chunk), from_column(place.rows(task.v), column), first,
                          heads.tokens, heads.depth - column);
      copy_numbers(memory.decays(chunk), place.decays(heads, chunk));
    }
    mma::commit_copies();
  };
  mma::C sums[kColumns / 8];
  read_sums(sums, task.first, place, heads.width, heads.depth, column);
  Number* own_sums = memory.sums + at.own * padded(kColumns);
  const auto store_sums = [&](int64_t i) {
    put_product<kColumns>(own_sums, sums, 1, 1);
    write_rows<kColumns>(own_sums, from_column(place.sums(task.sums, i), column), at.own, D,
                         kColumns);
  };
  start(0);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    start(chunk + 1);
    store_sums(chunk);
    mma::await_copies<1>();
    __syncthreads();
    const float* decays = memory.decays(chunk);
    const float since[2] = {decays[at.own + at.g], decays[at.own + at.g + 8]},
                end = decays[kDeltaTokens - 1];
    mma::A left[D / 16];
    // v - e^G K S
    mma::C held[kColumns / 8] = {};
    left_of_rows<D>(left, memory.k(chunk) + at.own * padded(D));
    add_product<kColumns>(held, left, memory.sums);
    const Number* v = memory.v(chunk);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at_row = (at.own + at.g + 8 * half) * padded(kColumns) + n * 8 + 2 * at.t;
        const float2 value = mma::unpack<Number>(*reinterpret_cast<const uint32_t*>(v + at_row));
        const float faded = mma::power_of_two(since[half]);
        *reinterpret_cast<uint32_t*>(memory.rest + at_row) = mma::pack<Number>(
            value.x - faded * held[n].part[2 * half], value.y - faded * held[n].part[2 * half + 1]);
      }
    __syncthreads();
    mma::C u[kColumns / 8] = {};
    left_of_rows<D>(left, memory.inverse(chunk) + at.own * padded(D));
    add_product<kColumns>(u, left, memory.rest);
    // What is written, as it is, and as it is at the end of the chunk.
    Number* own_u = memory.u + at.own * padded(kColumns);
    put_product<kColumns>(own_u, u, 1, 1);
    write_rows<kColumns>(own_u, from_column(place.rows(task.u), column),
                         chunk * kDeltaTokens + at.own, heads.tokens, heads.depth - column);
    __syncwarp();
    put_product<kColumns>(own_u, u, mma::power_of_two(end - since[0]),
                          mma::power_of_two(end - since[1]));
    __syncthreads();
    const float whole = mma::power_of_two(end);
    scale_rows<kColumns>(sums, whole, whole);
    left_of_columns(left, memory.k(chunk), at.own);
    add_product<kColumns>(sums, left, memory.u);
    __syncthreads();
  }
  store_sums(chunks);
  write_sums(sums, task.last, place, heads.width, heads.depth, column);
}

struct ReadMemory {
  static constexpr size_t kBytes = sizeof(Number) * 4 * kDeltaTile + sizeof(float) * kDeltaTokens;
  Number *q, *k, *u, *sums;
  float* decays;

  __device__ explicit ReadMemory(unsigned char* shared)
      : q(reinterpret_cast<Number*>(shared)),
        k(q + kDeltaTile),
        u(k + kDeltaTile),
        sums(u + kDeltaTile),
        decays(reinterpret_cast<float*>(sums + kDeltaTile)) {}
};

__global__ void __launch_bounds__(kDeltaThreads) read(DeltaWays<DeltaRead> tasks) {
  const auto& task = tasks.way[blockIdx.z];
  unsigned char* const shared = dynamic_memory();
  const ReadMemory memory(shared);
  const auto& heads = task.heads;
  const int64_t chunk = blockIdx.x, first = chunk * kDeltaTokens;
  const DeltaPlace place(heads, blockIdx.y, gridDim.x);
  const Lane at;
  copy_rows<D>(memory.q, place.rows(heads.q), first, heads.tokens, heads.width);
  copy_rows<D>(memory.k, place.rows(heads.k), first, heads.tokens, heads.width);
  copy_rows<D>(memory.u, place.rows(task.u), first, heads.tokens, heads.depth);
  copy_rows<D>(memory.sums, place.sums(task.sums, chunk), 0, D, D);
  copy_numbers(memory.decays, place.decays(heads, chunk));
  mma::commit_copies();
  mma::await_copies<0>();
  __syncthreads();
  mma::A left[D / 16];
  Number* own = memory.q + at.own * padded(D);
  left_of_rows<D>(left, own);
  mma::C values[D / 8] = {};
  add_product<D>(values, left, memory.sums);
  scale_rows<D>(values, mma::power_of_two(memory.decays[at.own + at.g]),
                mma::power_of_two(memory.decays[at.own + at.g + 8]));
  add_pairs<Seen::up_to_own, D>(values, left, memory.k, memory.u, memory.decays, 1);
  __syncwarp();
  put_product<D>(own, values, heads.scale, heads.scale);
  write_rows<D>(own, place.rows(task.out), first + at.own, heads.tokens, heads.depth);
}

struct WalkBackMemory {
  static constexpr int kNarrow = kDeltaTokens * padded(kColumns),
                       kBuffer = 3 * kDeltaTile + kNarrow;
  static constexpr size_t kBytes =
      sizeof(Number) * (2 * kBuffer + 3 * kNarrow) + sizeof(float) * 2 * kDeltaTokens;
  Number *buffers, *dsums, *du, *written;  // [64, 32] each, behind the buffers
  float* all_decays;

  __device__ explicit WalkBackMemory(unsigned char* shared)
      : buffers(reinterpret_cast<Number*>(shared)),
        dsums(buffers + 2 * kBuffer),
        du(dsums + kNarrow),
        written(du + kNarrow),
        all_decays(reinterpret_cast<float*>(written + kNarrow)) {}
  __device__ Number* q(int64_t chunk) const { return buffers + chunk % 2 * kBuffer; }
  __device__ Number* k(int64_t chunk) const { return q(chunk) + kDeltaTile; }
  __device__ Number* inverse(int64_t chunk) const { return k(chunk) + kDeltaTile; }
  __device__ Number* dout(int64_t chunk) const { return inverse(chunk) + kDeltaTile; }
  __device__ float* decays(int64_t chunk) const { return all_decays + chunk % 2 * kDeltaTokens; }
};

// With dS after the chunk: du = e^(G_C - G) K dS + (pairs of q and k)^T dout, dv = T^T du, and
// dS before it = e^G_C dS + (e^G q)^T dout - (e^G k)^T dv.
__global__ void __launch_bounds__(kDeltaThreads) walk_back(DeltaWays<DeltaWalkBack> tasks) {
  const auto& task = tasks.way[blockIdx.z];
  unsigned char* const shared = dynamic_memory();
  const WalkBackMemory memory(shared);
  const auto& heads = task.heads;
  const int64_t chunks = (heads.tokens + kDeltaTokens - 1) / kDeltaTokens;
  const DeltaPlace place(heads, blockIdx.y, chunks);
  const int column = static_cast<int>(blockIdx.x) * kColumns;
  const Lane at;
  const auto start = [&](int64_t chunk) {
    const int64_t first = chunk * kDeltaTokens;
    if (chunk >= 0) {
      copy_rows<D>(memory.q(chunk), place.rows(heads.q), first, heads.tokens, heads.width);
      copy_rows<D>(memory.k(chunk), place.rows(heads.k), first, heads.tokens, heads.width);
      copy_rows<D>(memory.inverse(chunk), place.inverse(heads, chunk), 0, kDeltaTokens, D);
      copy_rows<kColumns>(memory.dout(chunk), from_column(place.rows(task.dout), column), first,
                          heads.tokens, heads.depth - column);
      copy_numbers(memory.decays(chunk), place.decays(heads, chunk));
    }
    mma::commit_copies();
  };
  mma::C dsums[kColumns / 8];
  read_sums(dsums, task.first, place, heads.width, heads.depth, column);
  Number* own_sums = memory.dsums + at.own * padded(kColumns);
  const auto store_sums = [&](int64_t i) {
    put_product<kColumns>(own_sums, dsums, 1, 1);
    write_rows<kColumns>(own_sums, from_column(place.sums(task.dsums, i), column), at.own, D,
                         kColumns);
  };
  start(chunks - 1);
  for (int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
    start(chunk - 1);
    store_sums(chunk + 1);
    mma::await_copies<1>();
    __syncthreads();
    const float* decays = memory.decays(chunk);
    const float since[2] = {decays[at.own + at.g], decays[at.own + at.g + 8]},
                end = decays[kDeltaTokens - 1],
                faded[2] = {mma::power_of_two(since[0]), mma::power_of_two(since[1])};
    mma::A left[D / 16];
    left_of_rows<D>(left, memory.k(chunk) + at.own * padded(D));
    mma::C du[kColumns / 8] = {};
    add_product<kColumns>(du, left, memory.dsums);
    scale_rows<kColumns>(du, mma::power_of_two(end - since[0]), mma::power_of_two(end - since[1]));
    add_pairs<Seen::own_and_later, kColumns>(du, left, memory.q(chunk), memory.dout(chunk), decays,
                                             heads.scale);
    put_product<kColumns>(memory.du + at.own * padded(kColumns), du, 1, 1);
    __syncthreads();
    mma::C dv[kColumns / 8] = {};
    left_of_columns(left, memory.inverse(chunk), at.own);
    add_product<kColumns>(dv, left, memory.du);
    Number* own = memory.written + at.own * padded(kColumns);
    put_product<kColumns>(own, dv, 1, 1);
    write_rows<kColumns>(own, from_column(place.rows(task.dv), column),
                         chunk * kDeltaTokens + at.own, heads.tokens, heads.depth - column);
    __syncwarp();
    put_product<kColumns>(own, dv, -faded[0], -faded[1]);
    // dout as it is at the start of the chunk, in place.
    Number* dout = memory.dout(chunk) + at.own * padded(kColumns);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        auto* number = reinterpret_cast<uint32_t*>(dout + (at.g + 8 * half) * padded(kColumns) +
                                                   n * 8 + 2 * at.t);
        const float2 two = mma::unpack<Number>(*number);
        const float by = faded[half] * heads.scale;
        *number = mma::pack<Number>(two.x * by, two.y * by);
      }
    __syncthreads();
    const float whole = mma::power_of_two(end);
    scale_rows<kColumns>(dsums, whole, whole);
    left_of_columns(left, memory.q(chunk), at.own);
    add_product<kColumns>(dsums, left, memory.dout(chunk));
    left_of_columns(left, memory.k(chunk), at.own);
    add_product<kColumns>(dsums, left, memory.written);
    __syncthreads();
  }
  write_sums(dsums, task.last, place, heads.width, heads.depth, column);
}

dim3 walk_blocks(const DeltaHeads& heads, int ways) {
  return {D / kColumns, static_cast<unsigned>(heads.batch * heads.heads),
          static_cast<unsigned>(ways)};
}

}  // namespace

void delta_inverse_cuda(const DeltaWays<DeltaHeads>& tasks, void* stream) noexcept {
  launch(inverse, delta_blocks(tasks.way[0], tasks.count), kDeltaThreads, InverseMemory::kBytes,
         stream, tasks);
}

void delta_walk_cuda(const DeltaWays<DeltaWalk>& tasks, void* stream) noexcept {
  launch(walk, walk_blocks(tasks.way[0].heads, tasks.count), kDeltaThreads, WalkMemory::kBytes,
         stream, tasks);
}

void delta_read_cuda(const DeltaWays<DeltaRead>& tasks, void* stream) noexcept {
  launch(read, delta_blocks(tasks.way[0].heads, tasks.count), kDeltaThreads, ReadMemory::kBytes,
         stream, tasks);
}

void delta_walk_back_cuda(const DeltaWays<DeltaWalkBack>& tasks, void* stream) noexcept {
  launch(walk_back, walk_blocks(tasks.way[0].heads, tasks.count), kDeltaThreads,
         WalkBackMemory::kBytes, stream, tasks);
}

}  // namespace longbow::kernels
