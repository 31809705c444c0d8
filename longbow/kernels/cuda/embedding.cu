// Forward, a group of threads reads the row of a position once and adds it to the words that stand
// there in several sequences, so that as many reads are under way at once.
//
// The gradient of the words is one_hot(tokens)^T dy, a product of tensor cores whose left factor is
// formed in registers from the tokens' numbers: nothing is sorted, and sums are the same every
// time. A warp holds the sums of 32 words in 64 channels over all tokens of its part. Of 16 tokens
// it skips those words, 16 at a time, of which none occurs: neighbouring pixels are often alike.
#include "longbow/kernels/embedding.h"

#include "longbow/kernels/cuda/tile_rows.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256, kTogether = 4;

template <class T>
constexpr int kPack = 16 / sizeof(T);
template <class T>
struct Pack {
  alignas(16) T item[kPack<T>];
};

template <class T>
__device__ __forceinline__ void add(Pack<T>& sum, const Pack<T>& x) {
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i)
    sum.item[i] = static_cast<T>(static_cast<float>(sum.item[i]) + static_cast<float>(x.item[i]));
}
template <class T>
__device__ __forceinline__ Pack<T> not_a_number() {
  Pack<T> pack;
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) pack.item[i] = static_cast<T>(__uint_as_float(0x7fc00000u));
  return pack;
}

// `lanes` threads for the position that blockIdx.x gives them, in kTogether sequences at a time.
template <class T>
__global__ void __launch_bounds__(kThreads) embed(Embed task, int lanes) {
  const int64_t place = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / lanes;
  if (place >= task.length) return;
  const int lane = threadIdx.x % lanes, packs = static_cast<int>(task.width) / kPack<T>;
  const auto* words = static_cast<const Pack<T>*>(task.words);
  const auto* positions = static_cast<const Pack<T>*>(task.positions);
  auto* y = static_cast<Pack<T>*>(task.y);
  const int64_t step = gridDim.y * task.length * kTogether;
  for (int64_t first = blockIdx.y * task.length * kTogether + place; first < task.rows;
       first += step) {
    int64_t word[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int64_t row = first + i * task.length;
      word[i] = row < task.rows ? task.tokens[row] : -1;
      if (word[i] >= task.words_count) word[i] = -1;
    }
    for (int pack = lane; pack < packs; pack += lanes) {
      Pack<T> x[kTogether], position;
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        x[i] = word[i] >= 0 ? words[word[i] * packs + pack] : not_a_number<T>();
      if (positions) position = positions[place * packs + pack];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int64_t row = first + i * task.length;
        if (row >= task.rows) break;
        if (positions) add(x[i], position);
        y[row * packs + pack] = x[i];
      }
    }
  }
}

constexpr int kTile = 64, kChannels = 64, kStride = mma::padded(kChannels);
constexpr int kBuffers = 3, kBuffer = kTile * kStride;
constexpr int kListed = 1024;  // tokens whose numbers are in shared memory
constexpr int kTiles = 2;      // of 16 words, for a warp
constexpr int kMostWarps = 16;
using Sums = mma::C[kTiles][kChannels / 8];

// How words and channels are dealt out: to `warps` warps of a block, and to the grid's y and z.
struct Deal {
  int warps, word_blocks, channel_blocks;
};
__host__ inline Deal deal_of(int64_t words, int64_t width) {
  const auto warps = static_cast<int>((words + 16 * kTiles - 1) / (16 * kTiles));
  const int blocks = (warps + kMostWarps - 1) / kMostWarps;
  return {.warps = (warps + blocks - 1) / blocks,
          .word_blocks = blocks,
          .channel_blocks = static_cast<int>((width + kChannels - 1) / kChannels)};
}

// What a thread reads of the numbers of 16 tokens: those at 2t, 2t + 1, 2t + 8 and 2t + 9.
struct Numbers {
  int at[4];
};
__device__ __forceinline__ Numbers numbers_of(const int* tokens) {
  const int* own = tokens + threadIdx.x % 4 * 2;
  return {{own[0], own[1], own[8], own[9]}};
}

// Whether one of the 16 tokens is one of the 16 words from `first` on: the same for all threads.
__device__ __forceinline__ bool any_of(const Numbers& numbers, int first) {
  bool found = false;
#pragma unroll
  for (const int number : numbers.at) found |= static_cast<unsigned>(number - first) < 16u;
  return __ballot_sync(0xffffffffu, found) != 0;
}

// A whose element (m, k) is 1 where token k is word first + m, and 0 elsewhere.
template <class T>
__device__ __forceinline__ mma::A one_hot(const Numbers& numbers, int first) {
  const uint32_t low = mma::pack<T>(1, 0), high = mma::pack<T>(0, 1);
  const int word = first + static_cast<int>(threadIdx.x) % 32 / 4;
  mma::A a;
#pragma unroll
  for (int part = 0; part < 4; ++part) {
    const int own = word + part % 2 * 8;
    a.part[part] = (numbers.at[part / 2 * 2] == own ? low : 0u) |
                   (numbers.at[part / 2 * 2 + 1] == own ? high : 0u);
  }
  return a;
}

// The sums of 16 kTiles words over the tokens of a tile.
template <class T>
__device__ __forceinline__ void add_tile(Sums& sums, const int* tokens, const T* rows,
                                         const int (&words)[kTiles], int channels) {
#pragma unroll
  for (int step = 0; step < kTile / 16; ++step) {
    const auto numbers = numbers_of(tokens + step * 16);
    bool any[kTiles];
    mma::A a[kTiles];
#pragma unroll
    for (int m = 0; m < kTiles; ++m) any[m] = any_of(numbers, words[m]);
    if (!any[0] && !any[1]) continue;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) a[m] = one_hot<T>(numbers, words[m]);
#pragma unroll
    for (int n = 0; n < kChannels / 8; n += 2) {
      if (n * 8 >= channels) break;
      const auto two = mma::b_of_rows(rows + step * 16 * kStride + n * 8, kStride);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        if (!any[m]) continue;
        mma::multiply<T>(sums[m][n], a[m], two.tile[0]);
        mma::multiply<T>(sums[m][n + 1], a[m], two.tile[1]);
      }
    }
  }
}

__device__ __forceinline__ void store(const Sums& sums, float* to, const int (&words)[kTiles],
                                      int64_t count, int64_t width, int channels) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int m = 0; m < kTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int word = words[m] + half * 8 + g;
      if (word >= count) continue;
#pragma unroll
      for (int n = 0; n < kChannels / 8; ++n) {
        if (n * 8 >= channels) break;
        const float* two = sums[m][n].part + 2 * half;
        *reinterpret_cast<float2*>(to + word * width + n * 8 + 2 * t) = {two[0], two[1]};
      }
    }
}

// The tokens of a part are read tile by tile, two tiles ahead; before that the numbers of kListed.
template <class T>
__global__ void __launch_bounds__(kMostWarps * 32, 1) word_sums(WordSums task) {
  unsigned char* const memory = dynamic_memory();
  T* const buffers = reinterpret_cast<T*>(memory);
  int* const listed = reinterpret_cast<int*>(buffers + kBuffers * kBuffer);
  const int warps = blockDim.x / 32, warp = threadIdx.x / 32, column = blockIdx.z * kChannels;
  const int channels = min(kChannels, static_cast<int>(task.width) - column);
  int words[kTiles];
  Sums sums;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    words[m] = (static_cast<int>(blockIdx.y) * warps * kTiles + m * warps + warp) * 16;
#pragma unroll
    for (auto& sum : sums[m]) sum = {};
  }
  const int64_t tiles = (task.rows + kTile - 1) / kTile;
  const int64_t span = (tiles + task.parts - 1) / task.parts * kTile;
  const int64_t begin = blockIdx.x * span, end = min(begin + span, task.rows);
  for (int64_t first = begin; first < end; first += kListed) {
    const int count = static_cast<int>(min(end - first, int64_t{kListed}));
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kListed; i += blockDim.x) {
      const int64_t word = i < count ? task.tokens[first + i] : -1;
      const bool counts = word >= 0 && word < task.words && word != task.padding;
      listed[i] = counts ? static_cast<int>(word) : -1;
    }
    __syncthreads();
    const T* rows = static_cast<const T*>(task.dy) + first * task.width + column;
    const auto load = [&](int tile) {
      if (tile * kTile < count)
        blocks::load_rows<kChannels>(buffers + tile % kBuffers * kBuffer, rows, task.width, kTile,
                                     channels, [&](int row) {
                                       const int token = tile * kTile + row;
                                       return listed[token] >= 0 ? token : -1;
                                     });
      mma::commit_copies();
    };
    load(0);
    load(1);
    for (int tile = 0; tile * kTile < count; ++tile) {
      mma::await_copies<1>();
      __syncthreads();
      load(tile + 2);
      add_tile(sums, listed + tile * kTile, buffers + tile % kBuffers * kBuffer, words, channels);
    }
  }
  store(sums, task.sums + blockIdx.x * task.words * task.width + column, words, task.words,
        task.width, channels);
}

template <class T>
void embed_as(const Embed& given, void* stream) {
  Embed task = given;
  if (!task.positions) task.length = (task.rows + kTogether - 1) / kTogether;
  int lanes = 1;
  while (lanes < 32 && lanes * kPack<T> < task.width) lanes *= 2;
  const int64_t blocks = (task.length * lanes + kThreads - 1) / kThreads;
  const int64_t together = task.length * kTogether, turns = (task.rows + together - 1) / together;
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>(turns < 65535 ? turns : 65535));
  launch(embed<T>, grid, kThreads, 0, stream, task, lanes);
}

template <class T>
void word_sums_as(const WordSums& task, void* stream) {
  const auto deal = deal_of(task.words, task.width);
  const dim3 grid(static_cast<unsigned>(task.parts), static_cast<unsigned>(deal.word_blocks),
                  static_cast<unsigned>(deal.channel_blocks));
  constexpr size_t kBytes = kBuffers * kBuffer * sizeof(T) + kListed * sizeof(int);
  launch(word_sums<T>, grid, static_cast<unsigned>(deal.warps * 32), kBytes, stream, task);
}

}  // namespace

int64_t word_sum_parts(int64_t rows, int64_t words, int64_t width) noexcept {
  constexpr int64_t kWarps = 132 * 16;  // 16 for each multiprocessor of a large GPU
  const auto deal = deal_of(words, width);
  const int64_t parts = kWarps / (deal.warps * deal.word_blocks * deal.channel_blocks);
  const int64_t tiles = (rows + kTile - 1) / kTile;
  return parts < tiles ? parts : tiles;
}

void embed_cuda(const Embed& task, void* stream) noexcept {
  if (task.type == Element::float32) return embed_as<float>(task, stream);
  if (task.type == Element::bfloat16) return embed_as<__nv_bfloat16>(task, stream);
  embed_as<__half>(task, stream);
}

void word_sums_cuda(const WordSums& task, void* stream) noexcept {
  if (task.type == Element::bfloat16) return word_sums_as<__nv_bfloat16>(task, stream);
  word_sums_as<__half>(task, stream);
}

}  // namespace longbow::kernels
