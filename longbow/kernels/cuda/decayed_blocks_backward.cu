// Gradients of what tokens read of sums whose columns fade by blocks. With dS = dout_t . z_i for
// each block, E its decay between two tokens and W = sum over blocks of E dS,
//   dx_t = sum_{i <= t} W_ti y_i + sum E A dout_t,   dy_i = sum_{t >= i} W_ti x_t + sum E dA z_i,
//   dz_i = sum_{t >= i} E (x_t . y_i) dout_t + E y_i dA,
// with the sums A before the chunk and the gradients dA of those after it, and z_i times its step
// where there are steps s: then z_i . dz_i is the gradient of s_i, and that of what was multiplied
// is s_i dz_i. A pair of tokens fades by all decays between them, so that the gradient of a decay
// is the sum from behind of what pairs with earlier tokens and A give a token as a query, less what
// pairs with later tokens and dA give it as a key, and of A dA at the chunk's end: of what is left
// there of A before the chunk, and of what dA gives the chunk's keys, so that it cancels from
// behind.
//
// The kernel of pairs leaves W, the one of this file forms the products with the sums and with W.
#include "longbow/kernels/cuda/decay_blocks.h"

namespace longbow::kernels {
namespace {

using mma::padded;

template <int P, int Q>
struct SumMemory {
  static constexpr int kRows = kChunk * padded(P), kWeights = kChunk * padded(kChunk),
                       kValues = kChunk * padded(Q), kSums = P * padded(Q),
                       kBuffer = 2 * (kValues + kSums),
                       kNeeded = kWeights + kRows > kBuffer ? kWeights + kRows : kBuffer;
  static constexpr int kSlots = 4, kSlot = 3 * kChunk;
  static constexpr size_t bytes(int stages) {
    return sizeof(Number) * static_cast<size_t>(kRows + (stages - 1) * kBuffer + kNeeded) +
           sizeof(float) * (kSlots * kSlot + 2 * (kChunk + kWarps));
  }
  int stages;
  float* slots;                       // [4, 3, 128]: decays, steps and what pairs give decays
  float *queries, *ends;              // [2, 128]: what A gives queries; [2, 8]: A dA, by warp
  Number *x, *buffers, *weights, *y;  // behind the blocks W and y take the place of buffers

  __device__ SumMemory(unsigned char* shared, int given)
      : stages(given),
        slots(reinterpret_cast<float*>(shared)),
        queries(slots + kSlots * kSlot),
        ends(queries + 2 * kChunk),
        x(reinterpret_cast<Number*>(ends + 2 * kWarps)),
        buffers(x + kRows),
        weights(buffers),
        y(weights + kWeights) {}
  // Of queries dout and the sums before the chunk, of keys z and the gradients of those after it.
  __device__ Number* values(int block, int side) const {
    return buffers + (block & (stages - 1)) * kBuffer + side * (kValues + kSums);
  }
  __device__ Number* sums(int block, int side) const { return values(block, side) + kValues; }
  __device__ float* decays(int block) const { return slots + block % kSlots * kSlot; }
};

// A warp's tokens, on side 0 as queries, on side 1 as keys.
template <int P, int Q>
struct Side {
  const BlockGradient& task;
  const SumMemory<P, Q>& memory;
  const BlockChunk& chunk;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32,
            g = lane / 4, t = lane % 4, part = own_part(), own = part * 16, side = warp / kWarps;

  __device__ void start(int block) const {
    const auto& of = task.blocks;
    if (block < of.blocks) {
      const HeadRows values = chunk.columns(side == 0 ? task.dout : task.z, of, block),
                     sums = chunk.sums(side == 0 ? task.sums : task.dsums, of, block, P, Q, side);
      copy_own<Q>(memory.values(block, side), values, chunk, of.depth);
      copy_sums<Q, P / kWarps>(memory.sums(block, side), sums, warp % kWarps * (P / kWarps));
      if (warp < 3) {
        const float* from =
            warp < 2 ? chunk.decays(of, block) + warp * kChunk : found_of(task, chunk, block);
        mma::copy_async(memory.decays(block) + warp * kChunk + lane * 4, from + lane * 4, true);
      }
    }
    mma::commit_copies();
  }

  // Adds what the sums give.
  __device__ void multiply(mma::C (&all)[P / 8], int block) const {
    const float* decays = memory.decays(block);
    mma::A left[Q / 16];
    left_of_rows<Q>(left, memory.values(block, side) + own * padded(Q));
    float by[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int token = own + g + 8 * i;
      by[i] = side == 0
                  ? mma::power_of_two(decays[token])
                  : mma::power_of_two(decays[kChunk - 1] - decays[token]) * decays[kChunk + token];
    }
    scale_rows<Q>(left, by[0], by[1]);
    const Number* sums = memory.sums(block, side);
    mma::C(&dx)[P / 16][2] = reinterpret_cast<mma::C(&)[P / 16][2]>(all);
#pragma unroll
    for (int n = 0; n < P / 16; ++n) times_columns<Q>(dx[n], left, sums + n * 16 * padded(Q));
  }

  // What A gives queries of decays: x dx, less what it was.
  __device__ void put_queries(const mma::C (&dx)[P / 8], int block, float2& before) const {
    const float2 now = row_products<P>(memory.x + own * padded(P), dx);
    float* to = memory.queries + block % 2 * kChunk + own + g;
    if (t == 0) {
      to[0] = (now.x - before.x) * task.scale;
      to[8] = (now.y - before.y) * task.scale;
    }
    before = now;
  }

  // A dA at the chunk's end, by the warps of keys.
  __device__ void multiply_ends(int block) const {
    const Number *before = memory.sums(block, 0), *gradient = memory.sums(block, 1);
    float sum = 0;
    for (int i = static_cast<int>(threadIdx.x) - kBlockThreads; i < P * Q / 8; i += kBlockThreads) {
      const int place = i / (Q / 8) * padded(Q) + i % (Q / 8) * 8;
      float a[8], b[8];
      spread(*reinterpret_cast<const uint4*>(before + place), a);
      spread(*reinterpret_cast<const uint4*>(gradient + place), b);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum += a[e] * b[e];
    }
#pragma unroll
    for (int other = 1; other < 32; other *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
    if (lane == 0)
      memory.ends[block % 2 * kWarps + warp - kWarps] =
          sum * mma::power_of_two(memory.decays(block)[kChunk - 1]);
  }

  // Sums from behind, by one warp: a thread has 4 tokens. Zero where nothing is left behind a
  // token.
  __device__ void write_decays(int block) const {
    if (warp != kWarps + block % kWarps) return;
    const float *decays = memory.decays(block), *found = decays + 2 * kChunk,
                *queries = memory.queries + block % 2 * kChunk;
    float behind = 0, sums[4];
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      behind += found[lane * 4 + i] + queries[lane * 4 + i];
      sums[i] = behind;
    }
    float after = behind;  // with those of the lanes behind
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_sync(0xffffffffu, after, lane + step < 32 ? lane + step : lane);
      if (lane + step < 32) after += other;
    }
    after -= behind;
    for (int i = 0; i < kWarps; ++i) after += memory.ends[block % 2 * kWarps + i];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = lane * 4 + i;
      if (chunk.first + token >= chunk.end) continue;
      const float before = token == 0 ? 0 : decays[token - 1];
      task.ddecays[decay_place(task, chunk, token, block)] =
          mma::power_of_two(decays[token] - before) == 0 ? 0 : sums[i] + after;
    }
  }

  // W of the parts from a key's own on, and all keys.
  __device__ void load_weights() const {
    const auto weights = weights_of(task, chunk);
    if (side == 0)
      copy_own<P>(memory.y, rows_of(task.y, chunk.b, chunk.h), chunk, task.blocks.width);
    else
      for (int i = lane; i < 16 * (kChunk - own) / 8; i += 32) {
        const int row = own + i % 16, column = own + i / 16 * 8;
        mma::copy_async(memory.weights + row * padded(kChunk) + column,
                        weights.data + row * weights.stride + column, true);
      }
    mma::commit_copies();
    mma::await_copies<0>();
  }
  __device__ void add_pairs(mma::C (&all)[P / 8]) const {
    if (side == 0) {
      scale_rows<P>(all, task.scale, task.scale);
      for (int other = 0; other <= part; ++other)
        times_rows<P>(
            all,
            mma::a_of_columns(memory.weights + other * 16 * padded(kChunk) + own, padded(kChunk)),
            memory.y + other * 16 * padded(P));
      return;
    }
    for (int other = part; other < kWarps; ++other)
      times_rows<P>(
          all, mma::a_of_rows(memory.weights + own * padded(kChunk) + other * 16, padded(kChunk)),
          memory.x + other * 16 * padded(P));
  }
};

template <int P, int Q>
__global__ void __launch_bounds__(kTwice, 1) gradient_of_rows(BlockGradient task, int stages) {
  unsigned char* const shared = dynamic_memory();
  const SumMemory<P, Q> memory(shared, stages);
  const auto& of = task.blocks;
  const BlockChunk chunk(of);
  const Side<P, Q> rows = {task, memory, chunk};
  mma::C all[P / 8] = {};
  float2 before = {0, 0};  // what x dx was
  if (rows.side == 0) copy_own<P>(memory.x, rows_of(task.x, chunk.b, chunk.h), chunk, of.width);
  for (int stage = 0; stage < stages; ++stage) rows.start(stage);
#pragma unroll 1
  for (int block = 0; block < of.blocks; ++block) {
    await_stage(stages);
    __syncthreads();
    rows.multiply(all, block);
    rows.side == 0 ? rows.put_queries(all, block, before) : rows.multiply_ends(block);
    if (block > 0) rows.write_decays(block - 1);
    __syncthreads();
    rows.start(block + stages);
  }
  rows.write_decays(of.blocks - 1);
  rows.load_weights();
  __syncthreads();
  rows.add_pairs(all);
  __syncthreads();  // nobody reads x and y any more
  Number* room = (rows.side == 0 ? memory.x : memory.y) + rows.own * padded(P);
  put_product<P>(room, all, 1, 1);
  write_rows<P>(room, rows_of(rows.side == 0 ? task.dx : task.dy, chunk.b, chunk.h),
                chunk.first + rows.own, chunk.end, of.width);
}

}  // namespace

void block_gradient_cuda(const BlockGradient& task, void* stream) noexcept {
  with_block_shape(task.blocks.shape, [&]<int P, int Q>() {
    using Memory = SumMemory<P, Q>;
    static_assert(Memory::bytes(1) <= block_decay_memory({P, Q}));
    const int stages = most_stages<Memory>();
    launch(gradient_of_rows<P, Q>, chunk_blocks(task.blocks), kTwice, Memory::bytes(stages), stream,
           task, stages);
  });
}

}  // namespace longbow::kernels
