// Gradients of what tokens read of sums whose columns fade by blocks. With dS = dout_t . z_i for
// each block, E its decay between two tokens and W = sum over blocks of E dS,
//   dx_t = sum_{i <= t} W_ti y_i + sum E A dout_t,   dy_i = sum_{t >= i} W_ti x_t + sum E dA z_i,
//   dz_i = sum_{t >= i} E (x_t . y_i) dout_t + E y_i dA,
// with the sums A before the chunk and the gradients dA of those after it. A pair of tokens fades
// by all decays between them, so that the gradient of a decay is the sum from behind of what pairs
// with earlier tokens and A give a token as a query, less what pairs with later tokens and dA give
// key, and of A dA at the chunk's end: of what is left there of A before the chunk, and of what dA
// gives the chunk's keys, so that it cancels from behind.
#include "longbow/kernels/cuda/decay_blocks.h"

namespace longbow::kernels {
namespace {

using mma::padded;

template <int P, int Q>
struct QueryMemory {
  static constexpr int kRows = kChunk * padded(P), kValues = kChunk * padded(Q),
                       kBuffer = 2 * kValues + P * padded(Q);
  static constexpr size_t kBytes =
      sizeof(Number) * (kRows + 2 * kBuffer) + sizeof(float) * 2 * kChunk;
  static_assert(kRows <= kBuffer);
  Number *x, *buffers, *y;  // behind the blocks y takes the place of one, and dx that of x
  float* all_decays;

  __device__ explicit QueryMemory(unsigned char* shared)
      : x(reinterpret_cast<Number*>(shared)),
        buffers(x + kRows),
        y(buffers),
        all_decays(reinterpret_cast<float*>(buffers + 2 * kBuffer)) {}
  __device__ Number* z(int64_t block) const { return buffers + block % 2 * kBuffer; }
  __device__ Number* dout(int64_t block) const { return z(block) + kValues; }
  __device__ Number* sums(int64_t block) const { return dout(block) + kValues; }
  __device__ float* decays(int64_t block) const { return all_decays + block % 2 * kChunk; }
};

// E pairs, where columns are queries from the row's own on (`later`) or keys up to it.
template <bool kLater>
__device__ inline void fade(mma::C (&pairs)[2], int part, const float* decays,
                            const float (&own)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4,
            warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = n * 8 + 2 * t + i % 2, row = g + i / 2 * 8;
      const float other = decays[part * 16 + column];
      const float faded = kLater ? between(other, own[i / 2]) : between(own[i / 2], other);
      const bool seen = part != warp || (kLater ? column >= row : column <= row);
      pairs[n].part[i] = seen ? pairs[n].part[i] * faded : 0;
    }
}
__device__ inline void add(mma::C (&to)[2], const mma::C (&c)[2]) {
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) to[n].part[i] += c[n].part[i];
}

__device__ inline float* ddecays_of(const BlockGradient& task, const BlockChunk& chunk,
                                    int64_t token, int64_t block) {
  return task.ddecays + chunk.b * task.ddecays_batch + chunk.h * task.ddecays_head +
         (chunk.first + token) * task.ddecays_token + block;
}

template <int P, int Q>
__global__ void __launch_bounds__(kBlockThreads, 1) gradient_of_queries(BlockGradient task) {
  unsigned char* const shared = dynamic_memory();
  const QueryMemory<P, Q> memory(shared);
  const auto& of = task.blocks;
  const BlockChunk chunk(of);
  const int warp = static_cast<int>(threadIdx.x) / 32, own = warp * 16,
            g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
  const auto start = [&](int64_t block) {
    if (block < of.blocks) {
      copy_own<Q, kChunk>(memory.z(block), chunk.columns(task.z, of, block), chunk.first, chunk.end,
                          of.depth);
      copy_own<Q, kChunk>(memory.dout(block), chunk.columns(task.dout, of, block), chunk.first,
                          chunk.end, of.depth);
      copy_own<Q, P>(memory.sums(block), chunk.sums(task.sums, of, block, P, Q, 0), 0, P, Q);
      copy_decays(memory.decays(block), chunk.decays(of, block));
    }
    mma::commit_copies();
  };
  mma::C weights[kWarps][2] = {}, dx[P / 16][2] = {};
  mma::C(&all)[P / 8] = reinterpret_cast<mma::C(&)[P / 8]>(dx);
  float2 before = {0, 0};  // what x dx was
  Number* x = memory.x + own * padded(P);
  copy_own<P, kChunk>(memory.x, rows_of(task.x, chunk.b, chunk.h), chunk.first, chunk.end,
                      of.width);
  start(0);
  start(1);
#pragma unroll 1
  for (int64_t block = 0; block < of.blocks; ++block) {
    mma::await_copies<1>();
    __syncthreads();
    const float* decays = memory.decays(block);
    const float since[2] = {decays[own + g], decays[own + g + 8]};
    mma::A left[Q / 16];
    left_of_rows<Q>(left, memory.dout(block) + own * padded(Q));
#pragma unroll
    for (int part = 0; part < kWarps; ++part)
      if (part <= warp) {
        mma::C pairs[2] = {};
        times_columns<Q>(pairs, left, memory.z(block) + part * 16 * padded(Q));
        fade<false>(pairs, part, decays, since);
        add(weights[part], pairs);
      }
    scale_rows<Q>(left, mma::power_of_two(since[0]), mma::power_of_two(since[1]));
#pragma unroll
    for (int n = 0; n < P / 16; ++n)
      times_columns<Q>(dx[n], left, memory.sums(block) + n * 16 * padded(Q));
    const float2 now = row_products<P>(x, all);
    if (t == 0 && chunk.first + own + g < chunk.end)
      *ddecays_of(task, chunk, own + g, block) = (now.x - before.x) * task.scale;
    if (t == 0 && chunk.first + own + g + 8 < chunk.end)
      *ddecays_of(task, chunk, own + g + 8, block) = (now.y - before.y) * task.scale;
    before = now;
    __syncthreads();
    start(block + 2);
  }
  mma::await_copies<0>();
  copy_own<P, kChunk>(memory.y, rows_of(task.y, chunk.b, chunk.h), chunk.first, chunk.end,
                      of.width);
  mma::commit_copies();
  mma::await_copies<0>();
  __syncthreads();
#pragma unroll
  for (int part = 0; part < kWarps; ++part)
    if (part <= warp)
      times_rows<P>(all, mma::a_of<Number>(weights[part][0], weights[part][1]),
                    memory.y + part * 16 * padded(P));
  put_product<P>(x, all, task.scale, task.scale);
  write_rows<P>(x, rows_of(task.dx, chunk.b, chunk.h), chunk.first + own, chunk.end, of.width);
}

template <int P, int Q>
struct KeyMemory {
  static constexpr int kRows = kChunk * padded(P), kValues = kChunk * padded(Q),
                       kBuffer = 2 * kValues + P * padded(Q);
  static constexpr size_t kBytes = sizeof(Number) * (kRows + 2 * kBuffer) +
                                   sizeof(float) * ((2 + kWarps) * kChunk + kMostBlocks * kWarps);
  static_assert(kRows <= kBuffer);
  Number *y, *buffers, *x;    // x is there until the second block's tiles come, and behind all
  float *all_decays, *pairs;  // [2, 128]; [8, 128]: what each warp's keys give all queries
  float* dends;               // [blocks, 8]: of each block, a part of each warp

  __device__ explicit KeyMemory(unsigned char* shared)
      : y(reinterpret_cast<Number*>(shared)),
        buffers(y + kRows),
        x(buffers + kBuffer),
        all_decays(reinterpret_cast<float*>(buffers + 2 * kBuffer)),
        pairs(all_decays + 2 * kChunk),
        dends(pairs + kWarps * kChunk) {}
  __device__ Number* z(int64_t block) const { return buffers + block % 2 * kBuffer; }
  __device__ Number* dout(int64_t block) const { return z(block) + kValues; }
  __device__ Number* dsums(int64_t block) const { return dout(block) + kValues; }
  __device__ float* decays(int64_t block) const { return all_decays + block % 2 * kChunk; }
};

// Of keys (rows) with queries of part `part` from their own on, faded.
__device__ inline mma::A faded_pairs(const mma::A& pairs, int part, const float* decays,
                                     const float (&own)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4,
            warp = static_cast<int>(threadIdx.x) / 32;
  mma::A faded;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int column = i / 2 * 8 + 2 * t, row = g + i % 2 * 8;
    const float2 two = mma::unpack<Number>(pairs.part[i]),
                 query = *reinterpret_cast<const float2*>(decays + part * 16 + column);
    const bool own_part = part == warp;
    faded.part[i] =
        mma::pack<Number>(own_part && column < row ? 0 : two.x * between(query.x, own[i % 2]),
                          own_part && column + 1 < row ? 0 : two.y * between(query.y, own[i % 2]));
  }
  return faded;
}

template <int P, int Q>
struct Keys {
  const BlockGradient& task;
  const KeyMemory<P, Q>& memory;
  const BlockChunk& chunk;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32,
            g = lane / 4, t = lane % 4, own = warp * 16;

  __device__ void start(int64_t block) const {
    const auto& of = task.blocks;
    if (block < of.blocks) {
      copy_own<Q, kChunk>(memory.z(block), chunk.columns(task.z, of, block), chunk.first, chunk.end,
                          of.depth);
      copy_own<Q, kChunk>(memory.dout(block), chunk.columns(task.dout, of, block), chunk.first,
                          chunk.end, of.depth);
      copy_own<Q, P>(memory.dsums(block), chunk.sums(task.dsums, of, block, P, Q, 1), 0, P, Q);
      copy_decays(memory.decays(block), chunk.decays(of, block));
    }
    mma::commit_copies();
  }

  // At the chunk's end, a part of each warp; `given`: what its keys have of dA.
  __device__ void multiply_ends(int64_t block, const float2& given) const {
    const HeadRows before = chunk.sums(task.sums, task.blocks, block, P, Q, 0);
    float sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < P * Q / 8; i += kBlockThreads) {
      float a[8], b[8];
      spread(*reinterpret_cast<const uint4*>(before.data + i * 8), a);
      spread(*reinterpret_cast<const uint4*>(memory.dsums(block) + i / (Q / 8) * padded(Q) +
                                             i % (Q / 8) * 8),
             b);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum += a[e] * b[e];
    }
    sum *= mma::power_of_two(memory.decays(block)[kChunk - 1]);
    if (t == 0) sum += given.x + given.y;
#pragma unroll
    for (int other = 1; other < 32; other *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
    if (lane == 0) memory.dends[block * kWarps + warp] = sum;
  }

  // What pairs with later queries of a part, E dS (x . y), give these keys, and the queries.
  __device__ void add_pairs(const mma::C (&dpairs)[2], const mma::A& pairs, int part,
                            float (&to_keys)[2]) const {
    float to_queries[2][2] = {};
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 two = mma::unpack<Number>(pairs.part[2 * n + half]);
        const int row = g + 8 * half, column = n * 8 + 2 * t;
        // Not of a token with itself.
        const float left = part == warp && column == row ? 0 : two.x * dpairs[n].part[2 * half],
                    right = part == warp && column + 1 == row
                                ? 0
                                : two.y * dpairs[n].part[2 * half + 1];
        to_keys[half] += left + right;
        to_queries[n][0] += left;
        to_queries[n][1] += right;
      }
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& sum = to_queries[n][i];
#pragma unroll
        for (int other = 4; other < 32; other *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
        if (g == 0) memory.pairs[warp * kChunk + part * 16 + n * 8 + 2 * t + i] = sum;
      }
  }

  // To what queries are given by the sums before the chunk: the rest. All pairs are there.
  __device__ void put_ddecays(const float (&to_keys)[2], int64_t block) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = own + g + half * 8;
      float sum = -to_keys[half];
      for (int from = 0; from <= warp; ++from) sum += memory.pairs[from * kChunk + token];
      if (t == 0 && chunk.first + token < chunk.end) *ddecays_of(task, chunk, token, block) += sum;
    }
  }

  // Sums from behind, of a block: a thread has 4 tokens. Zero where nothing is left behind a token.
  __device__ void add_ddecays(int64_t block) const {
    const float* decays = chunk.decays(task.blocks, block);
    float behind = 0, sums[4];
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      const int token = lane * 4 + i;
      if (chunk.first + token < chunk.end) behind += *ddecays_of(task, chunk, token, block);
      sums[i] = behind;
    }
    float after = behind;  // with those of the lanes behind
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_sync(0xffffffffu, after, lane + step < 32 ? lane + step : lane);
      if (lane + step < 32) after += other;
    }
    after -= behind;
    for (int i = 0; i < kWarps; ++i) after += memory.dends[block * kWarps + i];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = lane * 4 + i;
      if (chunk.first + token >= chunk.end) continue;
      const float before = token == 0 ? 0 : decays[token - 1];
      *ddecays_of(task, chunk, token, block) =
          mma::power_of_two(decays[token] - before) == 0 ? 0 : sums[i] + after;
    }
  }
};

template <int P, int Q>
__global__ void __launch_bounds__(kBlockThreads, 1) gradient_of_keys(BlockGradient task) {
  unsigned char* const shared = dynamic_memory();
  const KeyMemory<P, Q> memory(shared);
  const auto& of = task.blocks;
  const BlockChunk chunk(of);
  const Keys<P, Q> keys = {task, memory, chunk};
  const int warp = keys.warp, own = keys.own, g = keys.g;
  copy_own<P, kChunk>(memory.x, rows_of(task.x, chunk.b, chunk.h), chunk.first, chunk.end,
                      of.width);
  copy_own<P, kChunk>(memory.y, rows_of(task.y, chunk.b, chunk.h), chunk.first, chunk.end,
                      of.width);
  mma::commit_copies();
  keys.start(0);
  mma::await_copies<1>();
  __syncthreads();
  const Number* y = memory.y + own * padded(P);
  mma::A pairs[kWarps];
  {
    mma::A left[P / 16];
    left_of_rows<P>(left, y);
#pragma unroll
    for (int part = 0; part < kWarps; ++part)
      if (part >= warp) {
        mma::C two[2] = {};
        times_columns<P>(two, left, memory.x + part * 16 * padded(P));
        scale_rows<16>(two, task.scale, task.scale);
        pairs[part] = mma::a_of<Number>(two[0], two[1]);
      }
  }
  __syncthreads();  // nobody reads the queries any more
  keys.start(1);
  mma::C weights[kWarps][2] = {}, dy[P / 16][2] = {};
#pragma unroll 1
  for (int64_t block = 0; block < of.blocks; ++block) {
    mma::await_copies<1>();
    __syncthreads();
    const float* decays = memory.decays(block);
    const float since[2] = {decays[own + g], decays[own + g + 8]}, end = decays[kChunk - 1],
                until[2] = {mma::power_of_two(end - since[0]), mma::power_of_two(end - since[1])};
    mma::C dz[Q / 8] = {};
#pragma unroll 2
    for (int k = 0; k < P / 16; ++k)
      times_rows<Q>(dz, mma::a_of_rows(y + k * 16, padded(P)),
                    memory.dsums(block) + k * 16 * padded(Q));
    scale_rows<Q>(dz, until[0], until[1]);
    const float2 given = row_products<Q>(memory.z(block) + own * padded(Q), dz);
    keys.multiply_ends(block, given);
    float to_keys[2] = {};
    mma::A left[Q / 16];
    left_of_rows<Q>(left, memory.z(block) + own * padded(Q));
#pragma unroll
    for (int part = 0; part < kWarps; ++part)
      if (part >= warp) {
        const Number* dout = memory.dout(block) + part * 16 * padded(Q);
        times_rows<Q>(dz, faded_pairs(pairs[part], part, decays, since), dout);
        mma::C two[2] = {};
        times_columns<Q>(two, left, dout);
        fade<true>(two, part, decays, since);
        keys.add_pairs(two, pairs[part], part, to_keys);
        add(weights[part], two);
      }
    scale_rows<Q>(left, until[0], until[1]);
#pragma unroll
    for (int n = 0; n < P / 16; ++n)
      times_columns<Q>(dy[n], left, memory.dsums(block) + n * 16 * padded(Q));
    __syncthreads();  // nobody reads these tiles any more, and all pairs are there
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      to_keys[half] += __shfl_xor_sync(0xffffffffu, to_keys[half], 1);
      to_keys[half] += __shfl_xor_sync(0xffffffffu, to_keys[half], 2);
    }
    to_keys[0] += given.x;
    to_keys[1] += given.y;
    keys.put_ddecays(to_keys, block);
    Number* room = memory.z(block) + own * padded(Q);
    put_product<Q>(room, dz, 1, 1);
    write_rows<Q>(room, chunk.columns(task.dz, of, block), chunk.first + own, chunk.end, of.depth);
    __syncwarp();
    keys.start(block + 2);
  }
  __syncthreads();
  copy_own<P, kChunk>(memory.x, rows_of(task.x, chunk.b, chunk.h), chunk.first, chunk.end,
                      of.width);
  mma::commit_copies();
  mma::await_copies<0>();
  __syncthreads();
  mma::C(&all)[P / 8] = reinterpret_cast<mma::C(&)[P / 8]>(dy);
#pragma unroll
  for (int part = 0; part < kWarps; ++part)
    if (part >= warp) {
      scale_rows<16>(weights[part], task.scale, task.scale);
      times_rows<P>(all, mma::a_of<Number>(weights[part][0], weights[part][1]),
                    memory.x + part * 16 * padded(P));
    }
  __syncwarp();
  Number* room = memory.y + own * padded(P);
  put_product<P>(room, all, 1, 1);
  write_rows<P>(room, rows_of(task.dy, chunk.b, chunk.h), chunk.first + own, chunk.end, of.width);
  __syncthreads();
  for (int64_t block = warp; block < of.blocks; block += kWarps) keys.add_ddecays(block);
}

}  // namespace

void block_gradient_cuda(const BlockGradient& task, void* stream) noexcept {
  with_block_shape(task.blocks.shape, [&]<int P, int Q>() {
    launch(gradient_of_queries<P, Q>, chunk_blocks(task.blocks), kBlockThreads,
           QueryMemory<P, Q>::kBytes, stream, task);
    launch(gradient_of_keys<P, Q>, chunk_blocks(task.blocks), kBlockThreads,
           KeyMemory<P, Q>::kBytes, stream, task);
  });
}

}  // namespace longbow::kernels
