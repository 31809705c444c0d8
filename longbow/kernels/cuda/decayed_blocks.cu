// What tokens read of sums whose columns fade by blocks, and the sums of each chunk by itself.
#include "longbow/kernels/cuda/decay_blocks.h"

namespace longbow::kernels {
namespace {

using mma::padded;

constexpr float kNothing = -150;  // 2^x is 0 from here on, and sums over a chunk keep their digits

// A warp has a chunk of a block, a thread 4 tokens of it.
__global__ void __launch_bounds__(32) add_decays(BlockDecays task) {
  const auto& of = task.blocks;
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t chunk = blockIdx.x, chunks = gridDim.x, place = blockIdx.y,
                group = place / of.blocks, block = place % of.blocks;
  const float* from = task.given.data + group / of.heads * task.given.batch +
                      group % of.heads * task.given.head + block * task.given.channel;
  float own[4], sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t token = chunk * kChunk + lane * 4 + i;
    const float decay = token < of.tokens ? from[token * task.given.token] * 1.44269504f : 0;
    sum += decay < kNothing ? kNothing : decay;
    own[i] = sum;
  }
  float before = sum;  // with those of the lanes before
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float other = __shfl_sync(0xffffffffu, before, lane >= step ? lane - step : lane);
    if (lane >= step) before += other;
  }
  const float offset = before - sum;
  *reinterpret_cast<float4*>(of.decays + (place * chunks + chunk) * kChunk + lane * 4) = {
      own[0] + offset, own[1] + offset, own[2] + offset, own[3] + offset};
  if (lane == 31) task.whole[place * chunks + chunk] = mma::power_of_two(own[3] + offset);
}

template <int P, int Q>
struct SumsMemory {
  static constexpr size_t kBytes =
      sizeof(Number) * kChunk * (padded(P) + padded(Q)) + sizeof(float) * kChunk;
  Number *rows, *values;  // [128, P], [128, Q]
  float* decays;          // [128]

  __device__ explicit SumsMemory(unsigned char* shared)
      : rows(reinterpret_cast<Number*>(shared)),
        values(rows + kChunk * padded(P)),
        decays(reinterpret_cast<float*>(values + kChunk * padded(Q))) {}
};

// blockIdx.z is the block of columns. The values fade.
template <int P, int Q>
__global__ void __launch_bounds__(kBlockThreads) own_sums(BlockSums task) {
  unsigned char* const shared = dynamic_memory();
  const SumsMemory<P, Q> memory(shared);
  const auto& of = task.blocks;
  const BlockChunk chunk(of);
  const int64_t block = blockIdx.z;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const float* decays = chunk.decays(of, block);
  copy_own<P, kChunk>(memory.rows, rows_of(task.rows, chunk.b, chunk.h), chunk.first, chunk.end,
                      of.width);
  mma::commit_copies();
  Stage<Q, kBlockThreads, kChunk> values;
  values.load(chunk.columns(task.values, of, block), chunk.first, chunk.end, of.depth);
  const float last = decays[kChunk - 1];
#pragma unroll
  for (int i = 0; i < values.kPacks; ++i) {
    const float own = decays[values.row(i)];
    const float by =
        task.queries ? task.scale * mma::power_of_two(own) : mma::power_of_two(last - own);
    float x[8];
    spread(values.pack[i], x);
#pragma unroll
    for (float& number : x) number *= by;
    values.put(memory.values, padded(Q), i, packed(x));
  }
  mma::await_copies<0>();
  __syncthreads();
  // Each warp has 16 rows and a part of the columns.
  constexpr int kRowTiles = P / 16, kColumns = Q * kRowTiles / kWarps;
  const int row = warp % kRowTiles * 16, column = warp / kRowTiles * kColumns;
  mma::C sum[kColumns / 8] = {};
#pragma unroll
  for (int k = 0; k < kChunk; k += 16) {
    const mma::A a = mma::a_of_columns(memory.rows + k * padded(P) + row, padded(P));
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      const mma::TwoB b =
          mma::b_of_rows(memory.values + k * padded(Q) + column + n * 16, padded(Q));
      mma::multiply<Number>(sum[2 * n], a, b.tile[0]);
      mma::multiply<Number>(sum[2 * n + 1], a, b.tile[1]);
    }
  }
  __syncthreads();  // the sums take the place of the rows
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
    Number* to = memory.rows + (row + lane / 4) * padded(Q) + column + n * 8 + lane % 4 * 2;
    *reinterpret_cast<uint32_t*>(to) = mma::pack<Number>(sum[n].part[0], sum[n].part[1]);
    *reinterpret_cast<uint32_t*>(to + 8 * padded(Q)) =
        mma::pack<Number>(sum[n].part[2], sum[n].part[3]);
  }
  __syncthreads();
  const HeadRows to = chunk.sums(task.sums, of, block, P, Q, task.queries ? 1 : 0);
  for (int i = thread; i < P * Q / 8; i += kBlockThreads)
    *reinterpret_cast<uint4*>(to.data + i * 8) =
        *reinterpret_cast<const uint4*>(memory.rows + i / (Q / 8) * padded(Q) + i % (Q / 8) * 8);
}

template <int P, int Q>
struct ReadMemory {
  static constexpr int kRows = kChunk * padded(P), kValues = kChunk * padded(Q),
                       kBuffer = kValues + P * padded(Q), kKeys = kRows > kBuffer ? kRows : kBuffer;
  static constexpr size_t kBytes =
      sizeof(Number) * (kRows + kBuffer + kKeys) + sizeof(float) * 2 * kChunk;
  Number *x, *buffers, *y;  // y is there until the second block's tiles come
  float* all_decays;

  __device__ explicit ReadMemory(unsigned char* shared)
      : x(reinterpret_cast<Number*>(shared)),
        buffers(x + kRows),
        y(buffers + kBuffer),
        all_decays(reinterpret_cast<float*>(y + kKeys)) {}
  __device__ Number* z(int64_t block) const { return buffers + block % 2 * kBuffer; }
  __device__ Number* sums(int64_t block) const { return z(block) + kValues; }
  __device__ float* decays(int64_t block) const { return all_decays + block % 2 * kChunk; }
};

// Pairs of queries with keys up to their own, faded: rows are this warp's queries, columns the keys
// of part `part`.
__device__ inline mma::A faded_pairs(const mma::A& pairs, int part, const float* decays,
                                     const float (&own)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4,
            warp = static_cast<int>(threadIdx.x) / 32;
  mma::A faded;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int column = i / 2 * 8 + 2 * t, row = g + i % 2 * 8;
    const float2 two = mma::unpack<Number>(pairs.part[i]),
                 key = *reinterpret_cast<const float2*>(decays + part * 16 + column);
    const bool own_part = part == warp;
    faded.part[i] =
        mma::pack<Number>(own_part && column > row ? 0 : two.x * between(own[i % 2], key.x),
                          own_part && column + 1 > row ? 0 : two.y * between(own[i % 2], key.y));
  }
  return faded;
}

template <int P, int Q>
__global__ void __launch_bounds__(kBlockThreads, 2) read(BlockRead task) {
  unsigned char* const shared = dynamic_memory();
  const ReadMemory<P, Q> memory(shared);
  const auto& of = task.blocks;
  const BlockChunk chunk(of);
  const int warp = static_cast<int>(threadIdx.x) / 32, own = warp * 16,
            g = static_cast<int>(threadIdx.x) % 32 / 4;
  const auto start = [&](int64_t block) {
    if (block < of.blocks) {
      copy_own<Q, kChunk>(memory.z(block), chunk.columns(task.z, of, block), chunk.first, chunk.end,
                          of.depth);
      copy_own<Q, P>(memory.sums(block), chunk.sums(task.sums, of, block, P, Q, 0), 0, P, Q);
      copy_decays(memory.decays(block), chunk.decays(of, block));
    }
    mma::commit_copies();
  };
  copy_own<P, kChunk>(memory.x, rows_of(task.x, chunk.b, chunk.h), chunk.first, chunk.end,
                      of.width);
  copy_own<P, kChunk>(memory.y, rows_of(task.y, chunk.b, chunk.h), chunk.first, chunk.end,
                      of.width);
  mma::commit_copies();
  start(0);
  mma::await_copies<1>();
  __syncthreads();
  const Number* x = memory.x + own * padded(P);
  mma::A pairs[kWarps];
  {
    mma::A left[P / 16];
    left_of_rows<P>(left, x);
#pragma unroll
    for (int part = 0; part < kWarps; ++part)
      if (part <= warp) {
        mma::C two[2] = {};
        times_columns<P>(two, left, memory.y + part * 16 * padded(P));
        pairs[part] = mma::a_of<Number>(two[0], two[1]);
      }
  }
  __syncthreads();  // nobody reads the keys any more
  start(1);
#pragma unroll 1
  for (int64_t block = 0; block < of.blocks; ++block) {
    mma::await_copies<1>();
    __syncthreads();
    const float* decays = memory.decays(block);
    const float since[2] = {decays[own + g], decays[own + g + 8]};
    mma::C values[Q / 8] = {};
#pragma unroll
    for (int k = 0; k < P / 16; ++k)
      times_rows<Q>(values, mma::a_of_rows(x + k * 16, padded(P)),
                    memory.sums(block) + k * 16 * padded(Q));
    scale_rows<Q>(values, mma::power_of_two(since[0]), mma::power_of_two(since[1]));
#pragma unroll
    for (int part = 0; part < kWarps; ++part)
      if (part <= warp)
        times_rows<Q>(values, faded_pairs(pairs[part], part, decays, since),
                      memory.z(block) + part * 16 * padded(Q));
    __syncthreads();  // nobody reads these values any more
    Number* room = memory.z(block) + own * padded(Q);
    put_product<Q>(room, values, task.scale, task.scale);
    write_rows<Q>(room, chunk.columns(task.out, of, block), chunk.first + own, chunk.end, of.depth);
    __syncwarp();
    start(block + 2);
  }
}

}  // namespace

void block_decays_cuda(const BlockDecays& task, void* stream) noexcept {
  const auto& of = task.blocks;
  launch(add_decays,
         dim3(static_cast<unsigned>(of.chunks()),
              static_cast<unsigned>(of.batch * of.heads * of.blocks)),
         32, 0, stream, task);
}

void block_sums_cuda(const BlockSums& task, void* stream) noexcept {
  with_block_shape(task.blocks.shape, [&]<int P, int Q>() {
    auto blocks = chunk_blocks(task.blocks);
    blocks.z = static_cast<unsigned>(task.blocks.blocks);
    launch(own_sums<P, Q>, blocks, kBlockThreads, SumsMemory<P, Q>::kBytes, stream, task);
  });
}

void block_read_cuda(const BlockRead& task, void* stream) noexcept {
  with_block_shape(task.blocks.shape, [&]<int P, int Q>() {
    launch(read<P, Q>, chunk_blocks(task.blocks), kBlockThreads, ReadMemory<P, Q>::kBytes, stream,
           task);
  });
}

}  // namespace longbow::kernels
