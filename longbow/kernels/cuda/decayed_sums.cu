// The sums of each chunk by itself, and the scan that makes of them those before each chunk.
#include "longbow/kernels/cuda/decay_tiles.h"

namespace longbow::kernels {
namespace {

using mma::padded;

template <int P, int Q>
struct Memory {
  static constexpr size_t kBytes =
      sizeof(Number) * kTile * (padded(P) + padded(Q)) + sizeof(float) * DecayTile<P>::kNumbers;
  Number *rows, *values;  // [64, P], [64, Q]
  DecayTile<P> decays;

  __device__ explicit Memory(unsigned char* shared)
      : rows(reinterpret_cast<Number*>(shared)),
        values(rows + kTile * padded(P)),
        decays(reinterpret_cast<float*>(values + kTile * padded(Q))) {}
};

// The decays of all parts before or after one, added to those of 8 channels.
template <int P>
__device__ void add_parts(const float* whole, int channel, int first, int end, float (&sum)[8]) {
  for (int part = first; part < end; ++part)
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] += whole[part * P + channel + i];
}

template <int P, int Q>
__global__ void __launch_bounds__(kDecayThreads) own_sums(DecayedSums task) {
  unsigned char* const shared = dynamic_memory();
  const Memory<P, Q> memory(shared);
  const auto& heads = task.heads;
  const Chunk chunk(heads);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32,
            g = lane / 4, t = lane % 4;
  const int64_t chunks = chunk.count;
  {
    Stage<P, kDecayThreads> rows;
    Stage<Q, kDecayThreads> values;
    rows.load(rows_of(task.rows, chunk.b, chunk.h), chunk.first, chunk.end, heads.width);
    values.load(rows_of(task.values, chunk.b, chunk.h), chunk.first, chunk.end, heads.depth);
    memory.decays.fill(heads, chunk);
    values.store(memory.values);
    __syncthreads();
    const float* whole = memory.decays.whole;
    if (task.queries)
      store_faded(rows, memory.rows, task.scale, [&](int token, int channel, float(&sum)[8]) {
        memory.decays.since_start(token, channel, sum);
        add_parts<P>(whole, channel, 0, token / kPart, sum);
      });
    else
      store_faded(rows, memory.rows, 1, [&](int token, int channel, float(&sum)[8]) {
        memory.decays.until_end(token, channel, sum);
        add_parts<P>(whole, channel, token / kPart + 1, kParts, sum);
      });
    if (task.whole && thread < P)
      task.whole[(chunk.group * chunks + chunk.index) * P + thread] =
          faded(whole[thread] + whole[P + thread] + whole[2 * P + thread] + whole[3 * P + thread]);
    __syncthreads();
  }
  // Each warp has 16 rows, and all columns or a half of them.
  constexpr int kRowTiles = P / 16, kColumns = Q * kRowTiles / kParts;
  const int row = warp % kRowTiles * 16, column = warp / kRowTiles * kColumns;
  mma::C sum[kColumns / 8] = {};
#pragma unroll
  for (int k = 0; k < kTile; k += 16) {
    const mma::A a = mma::a_of_columns(memory.rows + k * padded(P) + row, padded(P));
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      const mma::TwoB b =
          mma::b_of_rows(memory.values + k * padded(Q) + column + n * 16, padded(Q));
      mma::multiply<Number>(sum[2 * n], a, b.tile[0]);
      mma::multiply<Number>(sum[2 * n + 1], a, b.tile[1]);
    }
  }
  Number* to = static_cast<Number*>(task.sums) +
               (chunk.group * (chunks + 1) + chunk.index + (task.queries ? 1 : 0)) * P * Q +
               (row + g) * Q + column + 2 * t;
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
    *reinterpret_cast<uint32_t*>(to + n * 8) = mma::pack<Number>(sum[n].part[0], sum[n].part[1]);
    *reinterpret_cast<uint32_t*>(to + 8 * Q + n * 8) =
        mma::pack<Number>(sum[n].part[2], sum[n].part[3]);
  }
}

// A thread has 4 numbers of a row, and asks for those of several chunks at once.
constexpr int kScanThreads = 64, kAhead = 16, kWide = 4;

__global__ void __launch_bounds__(kScanThreads) scan(DecayScan task) {
  const int64_t place =
                    (blockIdx.x * int64_t{kScanThreads} + static_cast<int>(threadIdx.x)) * kWide,
                group = blockIdx.y, size = task.shape.rows * task.shape.columns,
                row = place / task.shape.columns, column = place % task.shape.columns;
  if (place >= size) return;
  const bool real = row < task.width && column < task.depth;
  const int64_t outside =
      ((group / task.blocks * task.width + row) * task.blocks + group % task.blocks) * task.depth +
      column;
  float state[kWide] = {};
  if (real && task.first)
    for (int i = 0; i < kWide; ++i) state[i] = task.first[outside + i];
  Number* sums = static_cast<Number*>(task.sums) + group * (task.chunks + 1) * size + place;
  const float* whole =
      task.whole + group * task.chunks * task.whole_width + (task.whole_width == 1 ? 0 : row);
  const auto rounded = [&] {
    return uint2{mma::pack<Number>(state[0], state[1]), mma::pack<Number>(state[2], state[3])};
  };
  // Of step i the chunk, and where its own sums stand.
  const auto chunk_of = [&](int64_t i) { return task.backwards ? task.chunks - 1 - i : i; };
  const auto place_of = [&](int64_t i) { return task.backwards ? task.chunks - i : i; };
  for (int64_t first = 0; first < task.chunks; first += kAhead) {
    uint2 own[kAhead];
    float decay[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (first + i < task.chunks) {
        own[i] = *reinterpret_cast<const uint2*>(sums + place_of(first + i) * size);
        decay[i] = whole[chunk_of(first + i) * task.whole_width];
      }
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (first + i < task.chunks) {
        *reinterpret_cast<uint2*>(sums + place_of(first + i) * size) = rounded();
        const float2 left = mma::unpack<Number>(own[i].x), right = mma::unpack<Number>(own[i].y);
        state[0] = state[0] * decay[i] + left.x;
        state[1] = state[1] * decay[i] + left.y;
        state[2] = state[2] * decay[i] + right.x;
        state[3] = state[3] * decay[i] + right.y;
      }
  }
  *reinterpret_cast<uint2*>(sums + place_of(task.chunks) * size) = rounded();
  if (real)
    for (int i = 0; i < kWide; ++i) task.last[outside + i] = state[i];
}

}  // namespace

void decayed_sums_cuda(const DecayedSums& task, void* stream) noexcept {
  with_decay_shape(task.heads.shape, [&]<int P, int Q>() {
    static_assert(Memory<P, Q>::kBytes <= decay_memory({P, Q}));
    launch(own_sums<P, Q>, chunk_blocks(task.heads), kDecayThreads, Memory<P, Q>::kBytes, stream,
           task);
  });
}

void decay_scan_cuda(const DecayScan& task, void* stream) noexcept {
  const auto blocks =
      dim3(static_cast<unsigned>((task.shape.size() / kWide + kScanThreads - 1) / kScanThreads),
           static_cast<unsigned>(task.groups * task.blocks));
  launch(scan, blocks, kScanThreads, 0, stream, task);
}

}  // namespace longbow::kernels
