// Gradients of the delta rule beside dv, which the walk back gives. With Y = -dv the keys read like
// queries whose gradient is Y, strictly before their own token:
//   dq_t = E S dout_t + sum_{j <= t} E (dout_t . u_j) k_j,
//   dk_i = E S Y_i + sum_{j < i} E (Y_i . u_j) k_j                                    (as they
//   read)
//        + E dS u_i + sum_{t >= i} E (dout_t . u_i) q_t + sum_{t > i} E (Y_t . u_i) k_t  (and
//        write),
//   dbeta_i = X_i . b_i,   X_i = E dS^T k_i + sum_{t >= i} E (q_t . k_i) dout_t
//                                + sum_{t > i} E (k_t . k_i) Y_t,
//   b_i = v_i - E S^T k_i - sum_{j < i} E (k_i . k_j) u_j.
// Of a decay it is the sum from behind of what a token gains as it reads others less what it gains
// others read it, and of S dS at the chunk's end: of what is left there of S before the chunk, and
// of what the tokens of the chunk gain by dS, so that it cancels from behind.
#include "longbow/kernels/cuda/delta_tiles.h"

namespace longbow::kernels {
namespace {

using mma::padded;

struct Memory {
  static constexpr size_t kBytes = sizeof(Number) * 8 * kDeltaTile +
                                   sizeof(float) * ((2 + kDeltaWarps) * kDeltaTokens + kDeltaWarps);
  Number *q, *k, *v, *u, *dout, *dv, *sums, *dsums;
  float *decays, *gains, *losses, *dend;  // [64], [64], [4, 64]: by each warp, [4]

  __device__ explicit Memory(unsigned char* shared)
      : q(reinterpret_cast<Number*>(shared)),
        k(q + kDeltaTile),
        v(k + kDeltaTile),
        u(v + kDeltaTile),
        dout(u + kDeltaTile),
        dv(dout + kDeltaTile),
        sums(dv + kDeltaTile),
        dsums(sums + kDeltaTile),
        decays(reinterpret_cast<float*>(dsums + kDeltaTile)),
        gains(decays + kDeltaTokens),
        losses(gains + kDeltaTokens),
        dend(losses + kDeltaWarps * kDeltaTokens) {}
};

struct Block {
  const DeltaGradient& task;
  const Memory& memory;
  const DeltaPlace& place;
  int64_t chunk, first;
  Lane at;
  float since[2], until[2];  // how much the tokens g and g + 8 fade from the start, to the end

  __device__ Block(const DeltaGradient& given, const Memory& shared, const DeltaPlace& where)
      : task(given), memory(shared), place(where), chunk(blockIdx.x), first(chunk * kDeltaTokens) {}

  __device__ void load() {
    const auto& heads = task.heads;
    const auto copy = [&](Number* to, const ByHead& from, int64_t width) {
      copy_rows<D>(to, place.rows(from), first, heads.tokens, width);
    };
    copy(memory.q, heads.q, heads.width);
    copy(memory.k, heads.k, heads.width);
    copy(memory.v, task.v, heads.depth);
    copy(memory.u, task.u, heads.depth);
    copy(memory.dout, task.dout, heads.depth);
    copy(memory.dv, task.dv, heads.depth);
    copy_rows<D>(memory.sums, place.sums(task.sums, chunk), 0, D, D);
    copy_rows<D>(memory.dsums, place.sums(task.dsums, chunk + 1), 0, D, D);
    copy_numbers(memory.decays, place.decays(heads, chunk));
    mma::commit_copies();
    mma::await_copies<0>();
    __syncthreads();
    for (int half = 0; half < 2; ++half) {
      const float own = memory.decays[at.own + at.g + 8 * half];
      since[half] = mma::power_of_two(own);
      until[half] = mma::power_of_two(memory.decays[kDeltaTokens - 1] - own);
    }
  }

  __device__ void put_dbeta() const {
    mma::A left[D / 16];
    left_of_rows<D>(left, memory.k + at.own * padded(D));
    mma::C b[D / 8] = {}, x[D / 8] = {};
    add_product<D>(b, left, memory.sums);
    scale_rows<D>(b, -since[0], -since[1]);
    add_pairs<Seen::earlier, D>(b, left, memory.k, memory.u, memory.decays, -1);
    add_product<D>(x, left, memory.dsums);
    scale_rows<D>(x, until[0], until[1]);
    add_pairs<Seen::own_and_later, D>(x, left, memory.q, memory.dout, memory.decays,
                                      task.heads.scale);
    add_pairs<Seen::later, D>(x, left, memory.k, memory.dv, memory.decays, -1);
    float sum[2] = {};
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i / 2] += x[n].part[i] * b[n].part[i];
#pragma unroll
    for (float& half : sum) {
      half += __shfl_xor_sync(0xffffffffu, half, 1);
      half += __shfl_xor_sync(0xffffffffu, half, 2);
    }
    const float2 rest = row_products<D>(memory.v + at.own * padded(D), x);
    put(task.dbeta, sum[0] + rest.x, sum[1] + rest.y);
  }

  // Numbers of the tokens g and g + 8.
  __device__ void put(const TokenNumbers& to, float upper, float lower) const {
    const int64_t token = first + at.own + at.g;
    if (at.t != 0) return;
    if (token < task.heads.tokens) *place.number(to, token) = upper;
    if (token + 8 < task.heads.tokens) *place.number(to, token + 8) = lower;
  }

  // They return what tokens gain of the sums before the chunk, or by those after it.
  __device__ float2 as_queries(mma::C (&dq)[D / 8]) const {
    mma::A left[D / 16];
    left_of_rows<D>(left, memory.dout + at.own * padded(D));
    add_transposed(dq, left, memory.sums);
    scale_rows<D>(dq, since[0] * task.heads.scale, since[1] * task.heads.scale);
    const float2 gain = row_products<D>(memory.q + at.own * padded(D), dq);
    add_pairs<Seen::up_to_own, D>(dq, left, memory.u, memory.k, memory.decays, task.heads.scale);
    return gain;
  }
  __device__ float2 as_reading_keys(mma::C (&dk)[D / 8]) const {
    mma::A left[D / 16];
    left_of_rows<D>(left, memory.dv + at.own * padded(D));
    add_transposed(dk, left, memory.sums);
    scale_rows<D>(dk, -since[0], -since[1]);
    const float2 gain = row_products<D>(memory.k + at.own * padded(D), dk);
    add_pairs<Seen::earlier, D>(dk, left, memory.u, memory.k, memory.decays, -1);
    return gain;
  }
  __device__ float2 as_writing_keys(mma::C (&dk)[D / 8]) const {
    mma::A left[D / 16];
    left_of_rows<D>(left, memory.u + at.own * padded(D));
    add_transposed(dk, left, memory.dsums);
    scale_rows<D>(dk, until[0], until[1]);
    const float2 gain = row_products<D>(memory.k + at.own * padded(D), dk);
    add_pairs<Seen::own_and_later, D>(dk, left, memory.dout, memory.q, memory.decays,
                                      task.heads.scale);
    add_pairs<Seen::later, D>(dk, left, memory.dv, memory.k, memory.decays, -1);
    return gain;
  }

  // What pairs with earlier tokens, E ((dout_t . u_j) (q_t . k_j) - (dv_t . u_j) (k_t . k_j)), give
  // these tokens; and what they give the others.
  __device__ float2 gains_of_pairs() const {
    mma::A q[D / 16], k[D / 16], dout[D / 16], dv[D / 16];
    left_of_rows<D>(q, memory.q + at.own * padded(D));
    left_of_rows<D>(k, memory.k + at.own * padded(D));
    left_of_rows<D>(dout, memory.dout + at.own * padded(D));
    left_of_rows<D>(dv, memory.dv + at.own * padded(D));
    float gain[2] = {};
    for (int part = 0; part <= at.warp; ++part) {
      const Number *keys = memory.k + part * 16 * padded(D),
                   *written = memory.u + part * 16 * padded(D);
      mma::C read[2] = {}, dread[2] = {}, held[2] = {}, dheld[2] = {};
      times_columns<D>(read, q, keys);
      times_columns<D>(held, k, keys);
      times_columns<D>(dread, dout, written);
      times_columns<D>(dheld, dv, written);
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          read[n].part[i] = task.heads.scale * read[n].part[i] * dread[n].part[i] -
                            held[n].part[i] * dheld[n].part[i];
      fade_pairs<Seen::earlier>(read, part, memory.decays, 1);
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float sum = read[n].part[i] + read[n].part[2 + i];
          gain[0] += read[n].part[i];
          gain[1] += read[n].part[2 + i];
#pragma unroll
          for (int other = 4; other < 32; other *= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, other);
          if (at.g == 0)
            memory.losses[at.warp * kDeltaTokens + part * 16 + n * 8 + 2 * at.t + i] = sum;
        }
    }
#pragma unroll
    for (float& half : gain) {
      half += __shfl_xor_sync(0xffffffffu, half, 1);
      half += __shfl_xor_sync(0xffffffffu, half, 2);
    }
    return {gain[0], gain[1]};
  }

  // At the chunk's end, a part of each warp; `written`: what its tokens gain by the sums after it.
  __device__ void multiply_ends(const float2& written) const {
    float sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < D * D / 8; i += kDeltaThreads) {
      float a[8], b[8];
      const int spot = i / (D / 8) * padded(D) + i % (D / 8) * 8;
      spread(*reinterpret_cast<const uint4*>(memory.sums + spot), a);
      spread(*reinterpret_cast<const uint4*>(memory.dsums + spot), b);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum += a[e] * b[e];
    }
    sum *= mma::power_of_two(memory.decays[kDeltaTokens - 1]);
    if (at.t == 0) sum += written.x + written.y;
#pragma unroll
    for (int other = 1; other < 32; other *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
    if (at.lane == 0) memory.dend[at.warp] = sum;
  }

  // One warp: a thread has two tokens. Zero where nothing is left behind a token.
  __device__ void put_ddecays() const {
    const int token = at.lane * 2;
    float own[2] = {memory.gains[token], memory.gains[token + 1]};
    for (int warp = token / 16; warp < kDeltaWarps; ++warp)
      for (int i = 0; i < 2; ++i) own[i] -= memory.losses[warp * kDeltaTokens + token + i];
    float behind = own[0] + own[1];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int from = at.lane + step < 32 ? at.lane + step : at.lane;
      const float other = __shfl_sync(0xffffffffu, behind, from);
      if (at.lane + step < 32) behind += other;
    }
    for (int i = 0; i < kDeltaWarps; ++i) behind += memory.dend[i];
    const float found[2] = {behind, behind - own[0]};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float before = token + i == 0 ? 0 : memory.decays[token + i - 1];
      const bool nothing = mma::power_of_two(memory.decays[token + i] - before) == 0;
      if (first + token + i < task.heads.tokens)
        *place.number(task.dlog_decay, first + token + i) = nothing ? 0 : found[i];
    }
  }
};

__global__ void __launch_bounds__(kDeltaThreads, 3) gradient(DeltaWays<DeltaGradient> tasks) {
  const auto& task = tasks.way[blockIdx.z];
  unsigned char* const shared = dynamic_memory();
  const Memory memory(shared);
  const DeltaPlace place(task.heads, blockIdx.y, gridDim.x);
  Block block(task, memory, place);
  const Lane at;
  const bool fades = task.dlog_decay.data != nullptr;
  block.load();
  block.put_dbeta();
  Number *q = memory.q + at.own * padded(D), *k = memory.k + at.own * padded(D);
  mma::C dq[D / 8] = {}, dk[D / 8] = {};
  const float2 of_queries = block.as_queries(dq), of_keys = block.as_reading_keys(dk);
  float2 lost;
  {
    mma::C written[D / 8] = {};
    lost = block.as_writing_keys(written);
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) dk[n].part[i] += written[n].part[i];
  }
  if (fades) {
    const float2 of_pairs = block.gains_of_pairs();
    if (at.t == 0) {
      memory.gains[at.own + at.g] = of_queries.x + of_keys.x + of_pairs.x - lost.x;
      memory.gains[at.own + at.g + 8] = of_queries.y + of_keys.y + of_pairs.y - lost.y;
    }
    block.multiply_ends(lost);
  }
  __syncthreads();  // nobody reads q and k any more
  put_product<D>(q, dq, 1, 1);
  write_rows<D>(q, place.rows(task.dq), block.first + at.own, task.heads.tokens, task.heads.width);
  put_product<D>(k, dk, 1, 1);
  write_rows<D>(k, place.rows(task.dk), block.first + at.own, task.heads.tokens, task.heads.width);
  if (fades && at.warp == 0) block.put_ddecays();
}

}  // namespace

void delta_gradient_cuda(const DeltaWays<DeltaGradient>& tasks, void* stream) noexcept {
  launch(gradient, delta_blocks(tasks.way[0].heads, tasks.count), kDeltaThreads, Memory::kBytes,
         stream, tasks);
}

}  // namespace longbow::kernels
