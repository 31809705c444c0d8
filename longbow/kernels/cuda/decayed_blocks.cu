// What tokens read of sums whose columns fade by blocks, and the sums of each chunk by itself.
#include "longbow/kernels/cuda/decay_blocks.h"
#include "longbow/kernels/exponent.h"

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
    const float decay = token < of.tokens ? from[token * task.given.token] * kLog2E : 0;
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
  float* to = of.decays + (place * chunks + chunk) * 2 * kChunk + lane * 4;
  *reinterpret_cast<float4*>(to) = {own[0] + offset, own[1] + offset, own[2] + offset,
                                    own[3] + offset};
  float step[4] = {1, 1, 1, 1};
  if (const Decays& steps = task.steps; steps.data)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (const int64_t token = chunk * kChunk + lane * 4 + i; token < of.tokens)
        step[i] = steps.data[group / of.heads * steps.batch + group % of.heads * steps.head +
                             token * steps.token + block * steps.channel];
  *reinterpret_cast<float4*>(to + kChunk) = {step[0], step[1], step[2], step[3]};
  if (lane == 31) task.whole[place * chunks + chunk] = mma::power_of_two(own[3] + offset);
}

// A thread block has up to so many blocks of columns, for which it reads the rows once.
constexpr int kAtOnce = 4;

template <int P, int Q>
struct SumsMemory {
  static constexpr int kRows = kChunk * padded(P), kValues = kChunk * padded(Q);
  static constexpr size_t kBytes = sizeof(Number) * (kRows + 2 * kValues + P * padded(Q));
  Number *rows, *values, *room;  // [128, P], [2, 128, Q]; [P, Q]: the sums on their way out

  __device__ explicit SumsMemory(unsigned char* shared)
      : rows(reinterpret_cast<Number*>(shared)), values(rows + kRows), room(values + 2 * kValues) {}
};

// Values of one block of columns with their decays and steps, in registers until there is room.
template <int Q>
struct FadingValues {
  using Values = Stage<Q, kBlockThreads, kChunk>;
  Values values;
  float own[Values::kPacks], step[Values::kPacks], last;

  __device__ void load(const BlockSums& task, const BlockChunk& chunk, int block) {
    const auto& of = task.blocks;
    values.load(chunk.columns(task.values, of, block), chunk.first, chunk.end, of.depth);
    const float* decays = chunk.decays(of, block);
    last = decays[kChunk - 1];
#pragma unroll
    for (int i = 0; i < Values::kPacks; ++i) {
      own[i] = decays[Values::row(i)];
      step[i] = decays[kChunk + Values::row(i)];
    }
  }
  __device__ void store(const BlockSums& task, Number* tile) const {
#pragma unroll
    for (int i = 0; i < Values::kPacks; ++i) {
      const float by = task.queries ? task.scale * mma::power_of_two(own[i])
                                    : mma::power_of_two(last - own[i]) * step[i];
      float x[8];
      spread(values.pack[i], x);
#pragma unroll
      for (float& number : x) number *= by;
      Values::put(tile, padded(Q), i, packed(x));
    }
  }
};

// A warp's 16 rows of the sums and kColumns of their columns, through shared memory of its own.
template <int kColumns, int Q>
__device__ inline void write_sums(Number* room, const mma::C (&sum)[kColumns / 8], Number* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
    Number* place = room + lane / 4 * padded(Q) + n * 8 + lane % 4 * 2;
    *reinterpret_cast<uint32_t*>(place) = mma::pack<Number>(sum[n].part[0], sum[n].part[1]);
    *reinterpret_cast<uint32_t*>(place + 8 * padded(Q)) =
        mma::pack<Number>(sum[n].part[2], sum[n].part[3]);
  }
  __syncwarp();
  constexpr int kPacks = kColumns / 8;
#pragma unroll
  for (int i = lane; i < 16 * kPacks; i += 32)
    *reinterpret_cast<uint4*>(to + i / kPacks * Q + i % kPacks * 8) =
        *reinterpret_cast<const uint4*>(room + i / kPacks * padded(Q) + i % kPacks * 8);
}

// blockIdx.z has kAtOnce blocks of columns. The values fade.
template <int P, int Q>
__global__ void __launch_bounds__(kBlockThreads, 2) own_sums(BlockSums task) {
  unsigned char* const shared = dynamic_memory();
  const SumsMemory<P, Q> memory(shared);
  const auto& of = task.blocks;
  const BlockChunk chunk(of);
  const int first = static_cast<int>(blockIdx.z) * kAtOnce, blocks = static_cast<int>(of.blocks),
            end = first + kAtOnce < blocks ? first + kAtOnce : blocks,
            warp = static_cast<int>(threadIdx.x) / 32;
  copy_own<P>(memory.rows, rows_of(task.rows, chunk.b, chunk.h), chunk, of.width);
  mma::commit_copies();
  FadingValues<Q> values;
  values.load(task, chunk, first);
  mma::await_copies<0>();
  // Each warp has 16 rows and a part of the columns.
  constexpr int kRowTiles = P / 16, kColumns = Q * kRowTiles / kWarps;
  const int row = warp % kRowTiles * 16, column = warp / kRowTiles * kColumns;
#pragma unroll 1
  for (int block = first; block < end; ++block) {
    Number* tile = memory.values + (block & 1) * SumsMemory<P, Q>::kValues;
    values.store(task, tile);
    __syncthreads();  // and nobody reads the values two blocks before any more
    if (block + 1 < end) values.load(task, chunk, block + 1);
    mma::C sum[kColumns / 8] = {};
#pragma unroll 4
    for (int k = 0; k < kChunk; k += 16) {
      const mma::A a = mma::a_of_columns(memory.rows + k * padded(P) + row, padded(P));
#pragma unroll
      for (int n = 0; n < kColumns / 16; ++n) {
        const mma::TwoB b = mma::b_of_rows(tile + k * padded(Q) + column + n * 16, padded(Q));
        mma::multiply<Number>(sum[2 * n], a, b.tile[0]);
        mma::multiply<Number>(sum[2 * n + 1], a, b.tile[1]);
      }
    }
    const HeadRows to = chunk.sums(task.sums, of, block, P, Q, task.queries ? 1 : 0);
    write_sums<kColumns, Q>(memory.room + row * padded(Q) + column, sum,
                            to.data + row * Q + column);
  }
}

// kTeams teams of warps have a block each; with a single one there is one block.
template <int P, int Q, int kTeams>
struct ReadMemory {
  static constexpr int kRows = kChunk * padded(P), kValues = kChunk * padded(Q),
                       kBuffer = kValues + P * padded(Q),
                       kSpare = kRows > kBuffer ? kRows - kBuffer : 0;
  static constexpr size_t bytes(int stages) {
    return sizeof(uint4) * kPairs + sizeof(float) * 2 * kTeams * 2 * kChunk +
           sizeof(Number) * static_cast<size_t>(kRows + stages * kTeams * kBuffer + kSpare);
  }
  int stages;
  uint4* pairs;  // of queries and keys up to their own
  float* all_decays;
  Number *x, *buffers, *y;  // y is there until the tiles of the last stage come

  __device__ ReadMemory(unsigned char* shared, int given)
      : stages(given),
        pairs(reinterpret_cast<uint4*>(shared)),
        all_decays(reinterpret_cast<float*>(pairs + kPairs)),
        x(reinterpret_cast<Number*>(all_decays + 2 * kTeams * 2 * kChunk)),
        buffers(x + kRows),
        y(buffers + (stages * kTeams - 1) * kBuffer) {}
  __device__ int place(int block) const {
    return (block / kTeams & (stages - 1)) * kTeams + block % kTeams;
  }
  __device__ Number* z(int block) const { return buffers + place(block) * kBuffer; }
  __device__ Number* sums(int block) const { return z(block) + kValues; }
  __device__ float* decays(int block) const { return all_decays + place(block) * 2 * kChunk; }
};

template <int P, int Q, int kTeams>
struct Reader {
  const BlockRead& task;
  const ReadMemory<P, Q, kTeams>& memory;
  const BlockChunk& chunk;
  const int thread;
  const int warp = thread / 32, team = warp / kWarps, part = part_of(warp), own = part * 16,
            lane = thread % 32, g = lane / 4, t = lane % 4;

  // This team's block of those that the teams have at once.
  __device__ void start(int block) const {
    const auto& of = task.blocks;
    if (block < of.blocks) {
      copy_own<Q>(memory.z(block), chunk.columns(task.z, of, block), chunk, of.depth);
      copy_sums<Q, P / kWarps>(memory.sums(block), chunk.sums(task.sums, of, block, P, Q, 0),
                               warp % kWarps * (P / kWarps));
      if (const int place = thread % kBlockThreads * 4; place < 2 * kChunk)
        mma::copy_async(memory.decays(block) + place, chunk.decays(of, block) + place, true);
    }
    mma::commit_copies();
  }

  __device__ void form_pairs() const {
    mma::A left[P / 16];
    left_of_rows<P>(left, memory.x + own * padded(P));
    for (int other = team; other <= part; other += kTeams) {
      mma::C two[2] = {};
      times_columns<P>(two, left, memory.y + other * 16 * padded(P));
      pairs_of(other) = four_of(mma::a_of<Number>(two[0], two[1]));
    }
  }

  __device__ uint4& pairs_of(int other) const {
    return memory.pairs[(part * (part + 1) / 2 + other) * 32 + lane];
  }

  // Of keys of an earlier part, until this part begins, at `here`; by the keys' steps.
  __device__ mma::A earlier_pairs(int other, const float* decays, float here) const {
    const OfColumns key(decays + other * 16), step(decays + kChunk + other * 16);
    const uint4 four = pairs_of(other);
    const uint32_t words[4] = {four.x, four.y, four.z, four.w};
    mma::A faded;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float x = mma::power_of_two(here - key[n].x) * step[n].x,
                  y = mma::power_of_two(here - key[n].y) * step[n].y;
#pragma unroll
      for (int i = 2 * n; i < 2 * n + 2; ++i) {
        const float2 two = mma::unpack<Number>(words[i]);
        faded.part[i] = mma::pack<Number>(two.x * x, two.y * y);
      }
    }
    return faded;
  }

  // Of this part's keys up to each query.
  __device__ mma::A own_pairs(const float* decays, const float (&since)[2]) const {
    const OfColumns key(decays + own), step(decays + kChunk + own);
    const uint4 four = pairs_of(part);
    const uint32_t words[4] = {four.x, four.y, four.z, four.w};
    mma::A faded;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = i / 2, column = n * 8 + 2 * t, row = g + i % 2 * 8;
      const float2 two = mma::unpack<Number>(words[i]);
      faded.part[i] = mma::pack<Number>(
          column > row ? 0 : two.x * between(since[i % 2], key[n].x) * step[n].x,
          column + 1 > row ? 0 : two.y * between(since[i % 2], key[n].y) * step[n].y);
    }
    return faded;
  }

  __device__ void read(mma::C (&values)[Q / 8], int block) const {
    const float* decays = memory.decays(block);
    const Number *x = memory.x + own * padded(P), *z = memory.z(block);
    const float here = decays[own], since[2] = {decays[own + g], decays[own + g + 8]},
                until_here = mma::power_of_two(here);
#pragma unroll
    for (int k = 0; k < P / 16; ++k)
      times_rows<Q>(values, mma::a_of_rows(x + k * 16, padded(P)),
                    memory.sums(block) + k * 16 * padded(Q));
    scale_rows<Q>(values, until_here, until_here);
#pragma unroll 2
    for (int other = 0; other < part; ++other)
      times_rows<Q>(values, earlier_pairs(other, decays, here), z + other * 16 * padded(Q));
    scale_rows<Q>(values, mma::power_of_two(since[0] - here), mma::power_of_two(since[1] - here));
    times_rows<Q>(values, own_pairs(decays, since), z + own * padded(Q));
  }

  __device__ void write(mma::C (&values)[Q / 8], int block) const {
    const auto& of = task.blocks;
    Number* room = memory.z(block) + own * padded(Q);
    scale_rows<Q>(values, task.scale, task.scale);
    if (task.skip) scale_and_add<Q>(values, 1, 1, room, task.skip[chunk.h * of.blocks + block]);
    put_product<Q>(room, values, 1, 1);
    write_rows<Q>(room, chunk.columns(task.out, of, block), chunk.first + own, chunk.end, of.depth);
    __syncwarp();
  }
};

template <int P, int Q, int kTeams>
__global__ void __launch_bounds__(kTeams* kBlockThreads, 2 / kTeams)
    read(BlockRead task, int stages) {
  unsigned char* const shared = dynamic_memory();
  const ReadMemory<P, Q, kTeams> memory(shared, stages);
  const auto& of = task.blocks;
  const BlockChunk chunk(of);
  const Reader<P, Q, kTeams> reader = {task, memory, chunk, static_cast<int>(threadIdx.x)};
  const int team = reader.team, blocks = static_cast<int>(of.blocks);
  if (team == 0) copy_own<P>(memory.x, rows_of(task.x, chunk.b, chunk.h), chunk, of.width);
  if (team == kTeams - 1) copy_own<P>(memory.y, rows_of(task.y, chunk.b, chunk.h), chunk, of.width);
  mma::commit_copies();
  if (stages == 2) reader.start(team);
  await_stage(stages);
  __syncthreads();
  reader.form_pairs();
  __syncthreads();  // nobody reads the keys any more
  reader.start(team + (stages - 1) * kTeams);
#pragma unroll 1
  for (int first = 0; first < blocks; first += kTeams) {
    const Reader<P, Q, kTeams> now = {task, memory, chunk,
                                      recomputed(static_cast<int>(threadIdx.x))};
    const int block = first + now.team;
    const bool there = block < blocks;
    await_stage(stages);
    __syncthreads();
    mma::C values[Q / 8] = {};
    if (there) now.read(values, block);
    __syncthreads();  // nobody reads these values any more
    if (there) now.write(values, block);
    now.start(block + stages * kTeams);
  }
}

template <int P, int Q, int kTeams>
void start_read(const BlockRead& task, void* stream) {
  using Memory = ReadMemory<P, Q, kTeams>;
  static_assert(Memory::bytes(1) <= block_decay_memory({P, Q}));
  const int stages = kTeams == 1 ? 1 : most_stages<Memory>();
  launch(read<P, Q, kTeams>, chunk_blocks(task.blocks), kTeams * kBlockThreads,
         Memory::bytes(stages), stream, task, stages);
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
    blocks.z = static_cast<unsigned>((task.blocks.blocks + kAtOnce - 1) / kAtOnce);
    static_assert(SumsMemory<P, Q>::kBytes <= block_decay_memory({P, Q}));
    launch(own_sums<P, Q>, blocks, kBlockThreads, SumsMemory<P, Q>::kBytes, stream, task);
  });
}

void block_read_cuda(const BlockRead& task, void* stream) noexcept {
  with_block_shape(task.blocks.shape, [&]<int P, int Q>() {
    task.blocks.blocks == 1 ? start_read<P, Q, 1>(task, stream) : start_read<P, Q, 2>(task, stream);
  });
}

}  // namespace longbow::kernels
