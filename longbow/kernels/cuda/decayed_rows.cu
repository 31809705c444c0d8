// What tokens read of sums whose rows fade.
#include "longbow/kernels/cuda/decay_pairs.h"

namespace longbow::kernels {
namespace {

using mma::padded;

template <int P, int Q>
struct ReadMemory {
  static constexpr size_t kBytes =
      sizeof(Number) * (kTile * (3 * padded(P) + 2 * padded(Q)) + P * padded(Q)) +
      sizeof(float) * DecayTile<P>::kNumbers;
  Number *x, *y, *faded_y, *z, *out, *sums;  // [64, P] three times, [64, Q] twice, [P, Q]
  DecayTile<P> decays;

  __device__ explicit ReadMemory(unsigned char* shared)
      : x(reinterpret_cast<Number*>(shared)),
        y(x + kTile * padded(P)),
        faded_y(y + kTile * padded(P)),
        z(faded_y + kTile * padded(P)),
        out(z + kTile * padded(Q)),
        sums(out + kTile * padded(Q)),
        decays(reinterpret_cast<float*>(sums + P * padded(Q))) {}
};

template <int P, int Q>
__global__ void __launch_bounds__(kDecayThreads, P == 32 ? 4 : 2) read(DecayedRead task) {
  unsigned char* const shared = dynamic_memory();
  const ReadMemory<P, Q> memory(shared);
  const auto& heads = task.heads;
  const Chunk chunk(heads);
  const int warp = static_cast<int>(threadIdx.x) / 32, own = warp * kPart;
  const auto& decays = memory.decays;
  {
    Stage<P, kDecayThreads> x, y;
    Stage<Q, kDecayThreads> z;
    x.load(rows_of(task.x, chunk.b, chunk.h), chunk.first, chunk.end, heads.width);
    y.load(rows_of(task.y, chunk.b, chunk.h), chunk.first, chunk.end, heads.width);
    z.load(rows_of(task.z, chunk.b, chunk.h), chunk.first, chunk.end, heads.depth);
    decays.fill(heads, chunk);
    load_sums<P, Q>(memory.sums, task.sums, chunk, 0);
    x.store(memory.x);
    y.store(memory.y);
    z.store(memory.z);
    __syncthreads();
    store_faded(y, memory.faded_y, 1, [&](int token, int channel, float(&sum)[8]) {
      decays.until_end(token, channel, sum);
    });
    __syncthreads();
  }
  const Number* x = memory.x + own * padded(P);
  mma::C values[Q / 8] = {};
  mma::A left[P / 16];
  Between<P> between;
  for (int part = warp - 1; part >= 0; --part) {
    mma::C pairs[2] = {};
    fade_left<P>(left, x, decays, between, false, task.scale);
    times_columns<P>(pairs, left, memory.faded_y + part * kPart * padded(P));
    times_rows<Q>(values, mma::a_of<Number>(pairs[0], pairs[1]),
                  memory.z + part * kPart * padded(Q));
    between.add(decays.whole + part * P);
  }
  fade_left<P>(left, x, decays, between, false, task.scale);
#pragma unroll
  for (int k = 0; k < P / 16; ++k) times_rows<Q>(values, left[k], memory.sums + k * 16 * padded(Q));
  mma::C pairs[2] = {};
  own_pairs<P, false>(pairs, x, memory.y + own * padded(P), decays.row(own), task.scale);
  times_rows<Q>(values, mma::a_of<Number>(pairs[0], pairs[1]), memory.z + own * padded(Q));
  put_product<Q>(memory.out + own * padded(Q), values, 1, 1);
  write_rows<Q>(memory.out + own * padded(Q), rows_of(task.out, chunk.b, chunk.h),
                chunk.first + own, chunk.end, heads.depth);
}

}  // namespace

void decayed_read_cuda(const DecayedRead& task, void* stream) noexcept {
  with_decay_shape(task.heads.shape, [&]<int P, int Q>() {
    static_assert(ReadMemory<P, Q>::kBytes <= decay_memory({P, Q}));
    launch(read<P, Q>, chunk_blocks(task.heads), kDecayThreads, ReadMemory<P, Q>::kBytes, stream,
           task);
  });
}

}  // namespace longbow::kernels
