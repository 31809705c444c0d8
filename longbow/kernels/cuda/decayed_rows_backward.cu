// Gradients of what tokens read of sums whose rows fade. With s x in place of x, dS_ti = dout_t .
// z_i and E the decay between two tokens of a channel,
//   dx_t = sum_{i <= t} dS_ti E y_i + E A dout_t,   dy_i = sum_{t >= i} dS_ti E x_t + E dA z_i,
// with the sums A before the chunk and the gradients dA of those after it. A pair of tokens fades
// by all decays between them, so that the gradient of a decay is the sum from behind of x_t dx_t -
// y_t dy_t, without the pairs of a token with itself, and of A dA at the chunk's end: of what is
// left there of A before the chunk, and of what dA gives the chunk's keys, so that it cancels from
// behind.
#include "longbow/kernels/cuda/decay_pairs.h"

namespace longbow::kernels {
namespace {

using mma::padded;

template <int P, int Q>
struct Memory {
  static constexpr int kWide = P + 1, kPairs = kPart + 1;  // from row to row
  // Behind the products dx and dy take the place of z and dout, and dz that of the faded rows.
  static constexpr size_t kValues = sizeof(Number) * 2 * kTile * padded(Q),
                          kGradients = sizeof(float) * 2 * kTile * kWide,
                          kReused = kValues > kGradients ? kValues : kGradients;
  static_assert(2 * padded(P) >= padded(Q));
  static constexpr size_t kBytes =
      kReused + sizeof(Number) * (4 * kTile * padded(P) + 2 * P * padded(Q)) +
      sizeof(float) * (DecayTile<P>::kNumbers + kTile * kPairs + (2 * kParts + 1) * P);
  Number *z, *dout;                   // [64, Q]
  float *dx, *dy;                     // [64, P]
  Number *x, *y, *faded_x, *faded_y;  // [64, P]
  Number *dz, *sums, *dsums;          // [64, Q], [P, Q] twice
  DecayTile<P> decays;
  float *dpairs, *dwhole, *dkept, *dend;  // [4, 16, 16], [4, P] twice, [P]

  __device__ explicit Memory(unsigned char* shared)
      : z(reinterpret_cast<Number*>(shared)),
        dout(z + kTile * padded(Q)),
        dx(reinterpret_cast<float*>(shared)),
        dy(dx + kTile * kWide),
        x(reinterpret_cast<Number*>(shared + kReused)),
        y(x + kTile * padded(P)),
        faded_x(y + kTile * padded(P)),
        faded_y(faded_x + kTile * padded(P)),
        dz(faded_x),
        sums(faded_y + kTile * padded(P)),
        dsums(sums + P * padded(Q)),
        decays(reinterpret_cast<float*>(dsums + P * padded(Q))),
        dpairs(decays.whole + kParts * P),
        dwhole(dpairs + kTile * kPairs),
        dkept(dwhole + kParts * P),
        dend(dkept + kParts * P) {}
};

template <int P, int Q>
struct Block {
  const DecayedGradient& task;
  const Memory<P, Q>& memory;
  const Chunk& chunk;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32,
            g = lane / 4, t = lane % 4, own = warp * kPart;

  __device__ void load() const {
    const auto& heads = task.heads;
    Stage<P, kDecayThreads> x, y;
    Stage<Q, kDecayThreads> z, dout;
    x.load(rows_of(task.x, chunk.b, chunk.h), chunk.first, chunk.end, heads.width);
    y.load(rows_of(task.y, chunk.b, chunk.h), chunk.first, chunk.end, heads.width);
    z.load(rows_of(task.z, chunk.b, chunk.h), chunk.first, chunk.end, heads.depth);
    dout.load(rows_of(task.dout, chunk.b, chunk.h), chunk.first, chunk.end, heads.depth);
    memory.decays.fill(heads, chunk);
    load_sums<P, Q>(memory.sums, task.sums, chunk, 0);
    load_sums<P, Q>(memory.dsums, task.dsums, chunk, 1);
    x.store(memory.x);
    y.store(memory.y);
    z.store(memory.z);
    dout.store(memory.dout);
    __syncthreads();
    store_faded(x, memory.faded_x, task.scale, [&](int token, int channel, float(&sum)[8]) {
      memory.decays.since_start(token, channel, sum);
    });
    store_faded(y, memory.faded_y, 1, [&](int token, int channel, float(&sum)[8]) {
      memory.decays.until_end(token, channel, sum);
    });
    multiply_ends();
    __syncthreads();
  }

  // What is left of the sums before the chunk, times the gradients of those after it, added up over
  // columns.
  __device__ void multiply_ends() const {
    constexpr int kPerRow = kDecayThreads / P, kColumns = Q / kPerRow;
    const int row = static_cast<int>(threadIdx.x) / kPerRow,
              column = static_cast<int>(threadIdx.x) % kPerRow * kColumns;
    const Number *before = memory.sums + row * padded(Q) + column,
                 *gradient = memory.dsums + row * padded(Q) + column;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kColumns; i += 8) {
      float a[8], b[8];
      spread(*reinterpret_cast<const uint4*>(before + i), a);
      spread(*reinterpret_cast<const uint4*>(gradient + i), b);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum += a[e] * b[e];
    }
#pragma unroll
    for (int other = 1; other < kPerRow; other *= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, other);
    const float* whole = memory.decays.whole + row;
    if (column == 0)
      memory.dend[row] = sum * faded(whole[0] + whole[P] + whole[2 * P] + whole[3 * P]);
  }

  // Columns fade by a part.
  __device__ void fade(mma::C (&c)[P / 8], int part) const {
    const float* whole = memory.decays.whole + part * P;
#pragma unroll
    for (int n = 0; n < P / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) c[n].part[i] *= faded(whole[n * 8 + 2 * t + i % 2]);
  }

  // dx of other parts and chunks, at the start of this part.
  __device__ void as_queries(mma::C (&dx)[P / 8]) const {
    mma::A left[Q / 16];
    left_of_rows<Q>(left, memory.dout + own * padded(Q));
#pragma unroll
    for (int n = 0; n < P / 16; ++n) {
      mma::C two[2] = {};
      times_columns<Q>(two, left, memory.sums + n * 16 * padded(Q));
      dx[2 * n] = two[0];
      dx[2 * n + 1] = two[1];
    }
    for (int part = 0; part < warp; ++part) {
      mma::C pairs[2] = {};
      times_columns<Q>(pairs, left, memory.z + part * kPart * padded(Q));
      fade(dx, part);
      times_rows<P>(dx, mma::a_of<Number>(pairs[0], pairs[1]),
                    memory.faded_y + part * kPart * padded(P));
    }
    mma::C pairs[2] = {};
    times_columns<Q>(pairs, left, memory.z + own * padded(Q));
    float* to = memory.dpairs + own * Memory<P, Q>::kPairs;
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        to[(g + i / 2 * 8) * Memory<P, Q>::kPairs + n * 8 + 2 * t + i % 2] = pairs[n].part[i];
  }

  // dy of other parts and chunks, at the end of this part; kept: that of the chunks alone.
  __device__ void as_keys(mma::C (&dy)[P / 8], mma::C (&kept)[P / 8]) const {
    mma::A left[Q / 16];
    left_of_rows<Q>(left, memory.z + own * padded(Q));
#pragma unroll
    for (int n = 0; n < P / 16; ++n) {
      mma::C two[2] = {};
      times_columns<Q>(two, left, memory.dsums + n * 16 * padded(Q));
      dy[2 * n] = kept[2 * n] = two[0];
      dy[2 * n + 1] = kept[2 * n + 1] = two[1];
    }
    for (int part = kParts - 1; part > warp; --part) {
      mma::C pairs[2] = {};
      times_columns<Q>(pairs, left, memory.dout + part * kPart * padded(Q));
      fade(dy, part);
      fade(kept, part);
      times_rows<P>(dy, mma::a_of<Number>(pairs[0], pairs[1]),
                    memory.faded_x + part * kPart * padded(P));
    }
  }

  __device__ void as_values(mma::C (&dz)[Q / 8]) const {
    const Number* y = memory.y + own * padded(P);
    mma::A left[P / 16];
    Between<P> between;
    for (int part = warp + 1; part < kParts; ++part) {
      mma::C pairs[2] = {};
      fade_left<P>(left, y, memory.decays, between, true, 1);
      times_columns<P>(pairs, left, memory.faded_x + part * kPart * padded(P));
      times_rows<Q>(dz, mma::a_of<Number>(pairs[0], pairs[1]),
                    memory.dout + part * kPart * padded(Q));
      between.add(memory.decays.whole + part * P);
    }
    fade_left<P>(left, y, memory.decays, between, true, 1);
#pragma unroll
    for (int k = 0; k < P / 16; ++k) times_rows<Q>(dz, left[k], memory.dsums + k * 16 * padded(Q));
    mma::C pairs[2] = {};
    own_pairs<P, true>(pairs, y, memory.x + own * padded(P), memory.decays.row(own), task.scale);
    times_rows<Q>(dz, mma::a_of<Number>(pairs[0], pairs[1]), memory.dout + own * padded(Q));
  }

  // dx and dy from the ends of the part to the tokens.
  __device__ void put(const mma::C (&dx)[P / 8], const mma::C (&dy)[P / 8],
                      const mma::C (&kept)[P / 8]) const {
#pragma unroll
    for (int n = 0; n < P / 8; ++n) {
      float sum[2] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = own + g + i / 2 * 8, channel = n * 8 + 2 * t + i % 2;
        const float since = memory.decays.row(token)[channel],
                    until = memory.decays.whole[warp * P + channel] - since;
        const int place = token * Memory<P, Q>::kWide + channel;
        memory.dx[place] = dx[n].part[i] * faded(since);
        memory.dy[place] = dy[n].part[i] * faded(until);
        sum[i % 2] += static_cast<float>(memory.y[token * padded(P) + channel]) * kept[n].part[i] *
                      faded(until);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int other = 4; other < 32; other *= 2)
          sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], other);
        if (g == 0) memory.dkept[warp * P + n * 8 + 2 * t + i] = sum[i];
      }
    }
  }

  // Pairs within the part, and the sums from behind: a thread has a channel. dx and dy take the
  // place of x and y, the sums that of the wide dx.
  __device__ void finish(int channel) const {
    constexpr int kWide = Memory<P, Q>::kWide, kPairs = Memory<P, Q>::kPairs;
    float since[kPart], x[kPart], y[kPart], dx[kPart], dy[kPart];
    const float* dpairs = memory.dpairs + own * kPairs;
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      const int token = own + i;
      since[i] = memory.decays.row(token)[channel];
      x[i] = static_cast<float>(memory.x[token * padded(P) + channel]) * task.scale;
      y[i] = static_cast<float>(memory.y[token * padded(P) + channel]);
      dx[i] = memory.dx[token * kWide + channel];
      dy[i] = memory.dy[token * kWide + channel];
    }
#pragma unroll
    for (int i = 1; i < kPart; ++i)
#pragma unroll
      for (int j = 0; j < i; ++j) {
        const float d = dpairs[i * kPairs + j] * faded(since[i] - since[j]);
        dx[i] += d * y[j];
        dy[j] += d * x[i];
      }
    float behind = 0;
#pragma unroll
    for (int i = kPart - 1; i >= 0; --i) {
      const int token = own + i;
      const float d = dpairs[i * kPairs + i];
      behind += x[i] * dx[i] - y[i] * dy[i];
      memory.dx[token * kWide + channel] = behind;
      memory.x[token * padded(P) + channel] = __float2bfloat16((dx[i] + d * y[i]) * task.scale);
      memory.y[token * padded(P) + channel] = __float2bfloat16(dy[i] + d * x[i]);
    }
    memory.dwhole[warp * P + channel] = behind;
  }

  // Zero where nothing is left behind a token.
  __device__ void write_decays(int channel) const {
    if (channel >= task.heads.width) return;
    float after = memory.dend[channel];
    for (int part = 0; part < kParts; ++part) after += memory.dkept[part * P + channel];
    for (int part = warp + 1; part < kParts; ++part) after += memory.dwhole[part * P + channel];
    float* to = task.ddecays + chunk.b * task.ddecays_batch + chunk.h * task.ddecays_head +
                (chunk.first + own) * task.ddecays_token + channel;
    float before = 0;
    for (int i = 0; i < kPart && chunk.first + own + i < chunk.end; ++i) {
      const float since = memory.decays.row(own + i)[channel];
      const bool nothing = faded(since - before) == 0;
      const float found =
          nothing ? 0 : memory.dx[(own + i) * Memory<P, Q>::kWide + channel] + after;
      float& place = to[i * task.ddecays_token];
      place = task.add ? place + found : found;
      before = since;
    }
  }
};

// 16 rows of a gradient, those of one warp.
template <int W>
__device__ void put_rows(const Number* tile, const ByHead& to, const DecayedGradient& task,
                         const Chunk& chunk, int64_t own, int64_t width) {
  const auto rows = rows_of(to, chunk.b, chunk.h);
  if (task.add)
    add_rows<W>(tile, rows, chunk.first + own, chunk.end, width);
  else
    write_rows<W>(tile, rows, chunk.first + own, chunk.end, width);
}

template <int P, int Q>
__global__ void __launch_bounds__(kDecayThreads, P == 32 ? 3 : 1) gradient(DecayedGradient task) {
  unsigned char* const shared = dynamic_memory();
  const Memory<P, Q> memory(shared);
  const Chunk chunk(task.heads);
  const Block<P, Q> block = {task, memory, chunk};
  const int own = block.own;
  block.load();
  mma::C dz[Q / 8] = {}, dx[P / 8], dy[P / 8], kept[P / 8];
  block.as_values(dz);
  block.as_queries(dx);
  block.as_keys(dy, kept);
  __syncthreads();  // nobody reads z, dout and faded rows any more
  put_product<Q>(memory.dz + own * padded(Q), dz, 1, 1);
  put_rows<Q>(memory.dz + own * padded(Q), task.dz, task, chunk, own, task.heads.depth);
  block.put(dx, dy, kept);
  __syncwarp();
#pragma unroll 1
  for (int channel = block.lane; channel < P; channel += 32) block.finish(channel);
  put_rows<P>(memory.x + own * padded(P), task.dx, task, chunk, own, task.heads.width);
  put_rows<P>(memory.y + own * padded(P), task.dy, task, chunk, own, task.heads.width);
  __syncthreads();
  for (int channel = block.lane; channel < P; channel += 32) block.write_decays(channel);
}

}  // namespace

void decayed_gradient_cuda(const DecayedGradient& task, void* stream) noexcept {
  with_decay_shape(task.heads.shape, [&]<int P, int Q>() {
    static_assert(Memory<P, Q>::kBytes <= decay_memory({P, Q}));
    launch(gradient<P, Q>, chunk_blocks(task.heads), kDecayThreads, Memory<P, Q>::kBytes, stream,
           task);
  });
}

}  // namespace longbow::kernels
