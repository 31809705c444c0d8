// What pairs of tokens of a chunk give the gradients of kernels/cuda/decayed_blocks_backward.cu:
// all of those of values, steps and `skip`, W for the others, and what pairs give decays.
#include "longbow/kernels/cuda/decay_blocks.h"

namespace longbow::kernels {
namespace {

using mma::padded;

template <int P, int Q>
struct PairMemory {
  static constexpr int kRows = kChunk * padded(P), kValues = kChunk * padded(Q),
                       kBuffer = 2 * kValues + P * padded(Q), kExchange = kSpread * 4 * 32,
                       kFloats = (kWarps + 8) * kChunk + kSpread;
  static_assert(kRows <= kBuffer);
  static constexpr size_t bytes(int stages) {
    return sizeof(uint4) * (kPairs + kExchange) + sizeof(float) * kFloats +
           sizeof(Number) * static_cast<size_t>(kRows + stages * kBuffer);
  }
  int stages;
  uint4* pairs;             // of keys and queries from their own on
  float4* exchange;         // [16, 4, 32]: what a warp has of the other's columns
  float* all_decays;        // [2, 2, 128]
  float *queries, *keys;    // [8, 128]: what each part's keys give queries; [2, 128]: keys, by warp
  float *alone, *skips;     // [128]: a token's pair with itself; z . dout
  float* ends;              // [16]: of what dA gives keys, that of each warp
  Number *y, *buffers, *x;  // x is there until the tiles of the last stage come

  __device__ PairMemory(unsigned char* shared, int given)
      : stages(given),
        pairs(reinterpret_cast<uint4*>(shared)),
        exchange(reinterpret_cast<float4*>(pairs + kPairs)),
        all_decays(reinterpret_cast<float*>(exchange + kExchange)),
        queries(all_decays + 4 * kChunk),
        keys(queries + kWarps * kChunk),
        alone(keys + 2 * kChunk),
        skips(alone + kChunk),
        ends(skips + kChunk),
        y(reinterpret_cast<Number*>(ends + kSpread)),
        buffers(y + kRows),
        x(buffers + (stages - 1) * kBuffer) {}
  __device__ Number* z(int block) const { return buffers + (block & (stages - 1)) * kBuffer; }
  __device__ Number* dout(int block) const { return z(block) + kValues; }
  __device__ Number* dsums(int block) const { return dout(block) + kValues; }
  __device__ float* decays(int block) const {
    return all_decays + (block & (stages - 1)) * 2 * kChunk;
  }
};

// A warp's keys. Of the columns of values it begins with its own half, at `flip`; the other half it
// adds up for the other warp.
template <int P, int Q>
struct Keys {
  static constexpr int kHalf = Q / 2, kMost = kWarps / 2;
  const BlockGradient& task;
  const PairMemory<P, Q>& memory;
  const BlockChunk& chunk;
  const int thread;
  const int warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4,
            part = part_of(warp), own = part * 16, half = warp / kWarps, flip = half * kHalf;

  // Each warp copies what it writes over behind the products.
  __device__ void start(int block) const {
    const auto& of = task.blocks;
    if (block < of.blocks) {
      const auto copy = [&](Number* tile, const ByHead& all) {
        auto from = chunk.columns(all, of, block);
        from.data += flip;
        copy_rows<kHalf, 16, padded(Q)>(tile + own * padded(Q) + flip, from, chunk.first + own,
                                        chunk.end, of.depth - flip);
      };
      copy(memory.z(block), task.z);
      copy(memory.dout(block), task.dout);
      constexpr int kOwn = P < 64 ? 4 : P / kSpread;  // rows of the sums
      if (warp * kOwn < P)
        copy_sums<Q, kOwn>(memory.dsums(block), chunk.sums(task.dsums, of, block, P, Q, 1),
                           warp * kOwn);
      // The warps of `put_tokens`, each the numbers of its tokens.
      if (const int token = own_token(); token >= 0 && lane < 16) {
        const int place = lane / 8 * kChunk + token / 32 * 32 + lane % 8 * 4;
        mma::copy_async(memory.decays(block) + place, chunk.decays(of, block) + place, true);
      }
    }
    mma::commit_copies();
  }
  // What this thread adds up over warps: those with few pairs do.
  __device__ int own_token() const { return thread - (kTwice - kChunk); }

  // This warp's i-th part of queries, from its own on, and the products with it.
  __device__ int later(int i) const { return part + half + 2 * i; }
  __device__ uint4& pairs_of(int i) const {
    const int before = part * kWarps - part * (part - 1) / 2 + half * ((kWarps + 1 - part) / 2);
    return memory.pairs[(before + i) * 32 + lane];
  }
  __device__ void form_pairs() const {
    mma::A left[P / 16];
    left_of_rows<P>(left, memory.y + own * padded(P));
    for (int i = 0; later(i) < kWarps; ++i) {
      mma::C two[2] = {};
      times_columns<P>(two, left, memory.x + later(i) * 16 * padded(P));
      scale_rows<16>(two, task.scale, task.scale);
      pairs_of(i) = four_of(mma::a_of<Number>(two[0], two[1]));
    }
  }

  // Where the columns n that this warp counts begin, behind rows.
  __device__ int column(int n) const { return n < Q / 2 ? n + flip : n - flip; }
  // c += a times 16 rows; columns as this warp counts them.
  __device__ void add_rows(mma::C (&c)[Q / 8], const mma::A& a, const Number* rows) const {
#pragma unroll
    for (int n = 0; n < Q / 16; ++n) {
      const mma::TwoB b = mma::b_of_rows(rows + column(n * 16), padded(Q));
      mma::multiply<Number>(c[2 * n], a, b.tile[0]);
      mma::multiply<Number>(c[2 * n + 1], a, b.tile[1]);
    }
  }
  __device__ void times_values(mma::C (&c)[2], const mma::A (&left)[Q / 16],
                               const Number* rows) const {
#pragma unroll
    for (int k = 0; k < Q / 16; ++k) {
      const mma::TwoB b = mma::b_of_columns(rows + column(k * 16), padded(Q));
      mma::multiply<Number>(c[0], left[k], b.tile[0]);
      mma::multiply<Number>(c[1], left[k], b.tile[1]);
    }
  }

  // Of the gradients of sums after the chunk, fading until the part's end; to_keys: z . dz.
  __device__ void from_sums(mma::C (&dz)[Q / 8], const mma::A (&left)[Q / 16], float until_end,
                            int block, float (&to_keys)[2]) const {
    constexpr int kSteps = P / 32;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int k = (half * kSteps + i) * 16;
      add_rows(dz, mma::a_of_rows(memory.y + own * padded(P) + k, padded(P)),
               memory.dsums(block) + k * padded(Q));
    }
    scale_rows<Q>(dz, until_end, until_end);
#pragma unroll
    for (int k = 0; k < Q / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 z = mma::unpack<Number>(left[k].part[i]);
        const float* part = dz[2 * k + i / 2].part + i % 2 * 2;
        to_keys[i % 2] += z.x * part[0] + z.y * part[1];
      }
  }

  // Adds up over keys what they give the queries of a part.
  __device__ void put_queries(const float (&to_queries)[2][2], int other) const {
    const bool high = lane & 16, low = lane & 8;
    float two[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float kept = high ? to_queries[1][i] : to_queries[0][i],
                  sent = high ? to_queries[0][i] : to_queries[1][i];
      two[i] = kept + __shfl_xor_sync(0xffffffffu, sent, 16);
    }
    float sum = (low ? two[1] : two[0]) + __shfl_xor_sync(0xffffffffu, low ? two[0] : two[1], 8);
    sum += __shfl_xor_sync(0xffffffffu, sum, 4);
    if ((lane & 4) == 0)
      memory.queries[part * kChunk + other * 16 + (high ? 8 : 0) + 2 * t + (low ? 1 : 0)] = sum;
  }

  // Pairs with queries of a later part, which fade from this part's end, at `here`, and before it
  // by `rows`, with the keys' steps; dz and to_keys before it.
  __device__ void add_later(mma::C (&dz)[Q / 8], mma::C (&weights)[2], const mma::A (&left)[Q / 16],
                            int index, const float (&rows)[2], int block,
                            float (&to_keys)[2]) const {
    const int other = later(index);
    const Number* dout = memory.dout(block) + other * 16 * padded(Q);
    mma::C dpairs[2] = {};
    times_values(dpairs, left, dout);
    const OfColumns query(memory.decays(block) + other * 16);
    const float here = memory.decays(block)[own + 15];
    const uint4 four = pairs_of(index);
    const uint32_t words[4] = {four.x, four.y, four.z, four.w};
    mma::A faded;
    float to_queries[2][2] = {};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float x = mma::power_of_two(query[n].x - here),
                  y = mma::power_of_two(query[n].y - here);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float2 two = mma::unpack<Number>(words[2 * n + i]);
        const float left_pair = two.x * x, right_pair = two.y * y;
        faded.part[2 * n + i] = mma::pack<Number>(left_pair, right_pair);
        const float *d = dpairs[n].part + 2 * i, left_d = d[0] * rows[i], right_d = d[1] * rows[i];
        to_keys[i] += d[0] * left_pair + d[1] * right_pair;
        to_queries[n][0] += left_d * left_pair;
        to_queries[n][1] += right_d * right_pair;
        weights[n].part[2 * i] += left_d * x;
        weights[n].part[2 * i + 1] += right_d * y;
      }
    }
    add_rows(dz, faded, dout);
    put_queries(to_queries, other);
  }

  // Pairs with queries of this part from the key's own on. That with itself gives decays nothing.
  __device__ void add_own(mma::C (&dz)[Q / 8], mma::C (&weights)[2], const mma::A (&left)[Q / 16],
                          int block, float (&to_keys)[2]) const {
    const float* decays = memory.decays(block) + own;
    const float since[2] = {decays[g], decays[g + 8]},
                step[2] = {step_of(block, 0), step_of(block, 1)};
    const Number* dout = memory.dout(block) + own * padded(Q);
    mma::C dpairs[2] = {};
    times_values(dpairs, left, dout);
    const OfColumns query(decays);
    const uint4 four = pairs_of(0);
    const uint32_t words[4] = {four.x, four.y, four.z, four.w};
    mma::A faded;
    float to_queries[2][2] = {};
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float2 two = mma::unpack<Number>(words[2 * n + i]);
        const int row = g + 8 * i;
        float pair[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = n * 8 + 2 * t + e;
          const float decay =
              column < row ? 0 : between(e == 0 ? query[n].x : query[n].y, since[i]);
          pair[e] = (e == 0 ? two.x : two.y) * decay;
          const float d = dpairs[n].part[2 * i + e], given = d * pair[e];
          weights[n].part[2 * i + e] += d * decay * step[i];
          if (column == row) {
            memory.alone[own + row] = given;
            memory.skips[own + row] = d;
            continue;
          }
          to_keys[i] += given;
          to_queries[n][e] += given * step[i];
        }
        faded.part[2 * n + i] = mma::pack<Number>(pair[0] * step[i], pair[1] * step[i]);
      }
    add_rows(dz, faded, dout);
    put_queries(to_queries, part);
  }

  // Of a lane's two keys the decay until the part's end. Read again where it is needed: registers
  // are scarce.
  __device__ float until_part_end(int block, int i) const {
    const float* decays = memory.decays(block) + own;
    return mma::power_of_two(decays[15] - decays[g + 8 * i]);
  }
  __device__ float step_of(int block, int i) const {
    return memory.decays(block)[kChunk + own + g + 8 * i];
  }

  // All of dz that this warp has, of both halves of the columns, by the steps.
  __device__ void multiply(mma::C (&dz)[Q / 8], mma::C (&weights)[kMost][2], int block) const {
    const float* decays = memory.decays(block);
    const float rows[2] = {until_part_end(block, 0) * step_of(block, 0),
                           until_part_end(block, 1) * step_of(block, 1)};
    mma::A left[Q / 16];
#pragma unroll
    for (int k = 0; k < Q / 16; ++k)
      left[k] = mma::a_of_rows(memory.z(block) + own * padded(Q) + column(k * 16), padded(Q));
    float to_keys[2] = {};  // of this lane
    from_sums(dz, left, mma::power_of_two(decays[kChunk - 1] - decays[own + 15]), block, to_keys);
    float end = to_keys[0] * rows[0] + to_keys[1] * rows[1];
#pragma unroll
    for (int other = 1; other < 32; other *= 2) end += __shfl_xor_sync(0xffffffffu, end, other);
    if (lane == 0) memory.ends[warp] = end;
#pragma unroll
    for (int i = 0; i < kMost; ++i)
      if (later(i) > part && later(i) < kWarps)
        add_later(dz, weights[i], left, i, rows, block, to_keys);
    scale_rows<Q>(dz, rows[0], rows[1]);
    to_keys[0] *= until_part_end(block, 0);
    to_keys[1] *= until_part_end(block, 1);
    if (half == 0) add_own(dz, weights[0], left, block, to_keys);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      to_keys[i] += __shfl_xor_sync(0xffffffffu, to_keys[i], 1);
      to_keys[i] += __shfl_xor_sync(0xffffffffu, to_keys[i], 2);
      if (t == 0) memory.keys[half * kChunk + own + g + 8 * i] = to_keys[i];
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float* part = dz[Q / 16 + n].part;
      memory.exchange[(warp * 4 + n) * 32 + lane] = {part[0], part[1], part[2], part[3]};
    }
  }

  // With what the other warp has of this one's columns, to memory.
  __device__ void put_values(mma::C (&dz)[Q / 8], int block) const {
    const auto& of = task.blocks;
    Number* const room = memory.z(block) + own * padded(Q) + flip;
    const Number* dout = memory.dout(block) + own * padded(Q) + flip;
    const float skip = task.skip ? task.skip[chunk.h * of.blocks + block] : 0;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float4 more = memory.exchange[((warp ^ kWarps) * 4 + n) * 32 + lane];
      const float sums[4] = {more.x, more.y, more.z, more.w};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int place = (g + 8 * i) * padded(Q) + n * 8 + 2 * t;
        const float left = dz[n].part[2 * i] + sums[2 * i],
                    right = dz[n].part[2 * i + 1] + sums[2 * i + 1];
        const float2 d = mma::unpack<Number>(*reinterpret_cast<const uint32_t*>(dout + place));
        *reinterpret_cast<uint32_t*>(room + place) =
            mma::pack<Number>(left + skip * d.x, right + skip * d.y);
      }
    }
    __syncwarp();
    const auto to = chunk.columns(task.dz, of, block);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane / 4 + 8 * i, channel = lane % 4 * 8;
      if (chunk.first + own + row < chunk.end && flip + channel < of.depth)
        *reinterpret_cast<uint4*>(to.data + (chunk.first + own + row) * to.stride + flip +
                                  channel) =
            *reinterpret_cast<const uint4*>(room + row * padded(Q) + channel);
    }
  }

  // What pairs give decays, and the gradients of steps and of `skip`: a thread has a token.
  __device__ void put_tokens(int block) const {
    const int token = own_token();
    if (token < 0) return;
    const float given = memory.keys[token] + memory.keys[kChunk + token];
    float sum = -given * memory.decays(block)[kChunk + token];
    for (int from = 0; from <= token / 16; ++from) sum += memory.queries[from * kChunk + token];
    if (token == kChunk - 1)
      for (int i = 0; i < kSpread; ++i) sum += memory.ends[i];
    found_of(task, chunk, block)[token] = sum;
    if (!task.dsteps || chunk.first + token >= chunk.end) return;
    const int64_t place = decay_place(task, chunk, token, block);
    task.dsteps[place] = given + memory.alone[token];
    task.dskip[place] = memory.skips[token];
  }

  __device__ void put_weights(const mma::C (&weights)[kMost][2]) const {
    const auto to = weights_of(task, chunk);
#pragma unroll
    for (int i = 0; i < kMost; ++i)
      if (const int other = later(i); other < kWarps)
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
          for (int row = 0; row < 2; ++row) {
            const float* two = weights[i][n].part + 2 * row;
            *reinterpret_cast<uint32_t*>(to.data + (own + g + 8 * row) * to.stride + other * 16 +
                                         n * 8 + 2 * t) =
                mma::pack<Number>(two[0] * task.scale, two[1] * task.scale);
          }
  }
};

template <int P, int Q>
__global__ void __launch_bounds__(kTwice, 1) gradient_of_pairs(BlockGradient task, int stages) {
  unsigned char* const shared = dynamic_memory();
  const PairMemory<P, Q> memory(shared, stages);
  const auto& of = task.blocks;
  const BlockChunk chunk(of);
  const int thread = static_cast<int>(threadIdx.x);
  const Keys<P, Q> keys = {task, memory, chunk, thread};
  if (keys.half == 0)
    copy_own<P>(memory.x, rows_of(task.x, chunk.b, chunk.h), chunk, of.width);
  else
    copy_own<P>(memory.y, rows_of(task.y, chunk.b, chunk.h), chunk, of.width);
  mma::commit_copies();
  if (stages == 2) keys.start(0);
  await_stage(stages);
  __syncthreads();
  keys.form_pairs();
  __syncthreads();  // nobody reads the queries any more
  keys.start(stages - 1);
  mma::C weights[Keys<P, Q>::kMost][2] = {};
  const int blocks = static_cast<int>(of.blocks);
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    await_stage(stages);
    __syncthreads();
    const Keys<P, Q> keys = {task, memory, chunk, recomputed(thread)};
    mma::C dz[Q / 8] = {};
    keys.multiply(dz, weights, block);
    __syncthreads();  // nobody reads other warps' rows any more, and all pairs are there
    keys.put_values(dz, block);
    keys.put_tokens(block);
    __syncwarp();
    keys.start(block + stages);
  }
  keys.put_weights(weights);
}

}  // namespace

void block_pairs_gradient_cuda(const BlockGradient& task, void* stream) noexcept {
  with_block_shape(task.blocks.shape, [&]<int P, int Q>() {
    using Memory = PairMemory<P, Q>;
    static_assert(Memory::bytes(1) <= block_decay_memory({P, Q}));
    const int stages = most_stages<Memory>();
    launch(gradient_of_pairs<P, Q>, chunk_blocks(task.blocks), kTwice, Memory::bytes(stages),
           stream, task, stages);
  });
}

}  // namespace longbow::kernels
