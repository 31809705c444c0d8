// Forward: a group of threads has a chunk of 16 rows, each thread 8 of their channels, and makes
// four levels of it; the sums of the last one are the rows of the next launch. Backward: a group
// has 8 tokens, and adds up once what the rows above all of them have.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/eight.h"
#include "longbow/kernels/level_means.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 128, kAtOnce = LevelMeans::kAtOnce, kChunk = 1 << kAtOnce;
constexpr int kShared = 3, kTokens = 1 << kShared;  // of a group in the backward pass

// Which head, which chunk of it, and the first channel of a thread.
struct Place {
  int64_t both, batch, head, chunk;
  int column;
  bool there;

  template <class Task>
  __device__ Place(const Task& task, int64_t chunks, int lanes) {
    const int64_t group = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / lanes;
    both = group / chunks;
    chunk = group % chunks;
    batch = both / task.heads;
    head = both % task.heads;
    column = static_cast<int>(threadIdx.x) % lanes * 8;
    there = batch < task.batch && column < task.width;
  }
  template <class T, class Rows>
  __device__ T* in(const Rows& x, int64_t row) const {
    return static_cast<T*>(x.data) + batch * x.batch + head * x.head + row * x.token + column;
  }
};

// Rows of one launch: tokens, or the sums of a level, and the four levels above it.
struct Stage {
  int64_t rows;       // that are read
  const float* from;  // [B H, rows, width], null = the tokens
  float* to;          // sums of the last level, or null
  int64_t sums;       // how many there are
  int64_t chunks;
  int levels;                              // up to four
  int64_t first[kAtOnce], count[kAtOnce];  // where each level stands in the result, and its rows
};

template <class T>
__device__ Eight row_of(const LevelMeans& task, const Stage& stage, const Place& place,
                        int64_t row) {
  if (row >= stage.rows) return {};
  if (stage.from) {
    const auto* at = reinterpret_cast<const float4*>(
        stage.from + (place.both * stage.rows + row) * task.width + place.column);
    const float4 a = at[0], b = at[1];
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  }
  if (task.keep && !task.keep[place.batch * task.tokens + row]) return {};
  return read(place.in<const T>(task.x, row));
}

template <class T>
__global__ void __launch_bounds__(kThreads) levels(LevelMeans task, Stage stage, int lanes) {
  const Place place(task, stage.chunks, lanes);
  if (!place.there) return;
  const float* factors = task.factors + place.batch * task.factors_batch;
  Eight sum[kAtOnce] = {};
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    Eight one = row_of<T>(task, stage, place, place.chunk * kChunk + i);
#pragma unroll
    for (int l = 0; l < kAtOnce; ++l) {
      add(sum[l], 1, one);
      if ((i + 1) % (2 << l) != 0) break;
      const int64_t row = (place.chunk * kChunk + i) >> (l + 1);
      if (l < stage.levels && row < stage.count[l]) {
        Eight mean = {};
        add(mean, factors[stage.first[l] + row], sum[l]);
        write(place.in<T>(task.out, stage.first[l] + row), mean);
      }
      one = sum[l];
      sum[l] = {};
      if (l + 1 < kAtOnce) continue;
      if (!stage.to || row >= stage.sums) continue;
      auto* at = reinterpret_cast<float4*>(stage.to + (place.both * stage.sums + row) * task.width +
                                           place.column);
      at[0] = {one.value[0], one.value[1], one.value[2], one.value[3]};
      at[1] = {one.value[4], one.value[5], one.value[6], one.value[7]};
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    spread(LevelMeansBackward all, int64_t chunks, int lanes) {
  const auto& task = all.past;
  const Place place(task, chunks, lanes);
  if (!place.there) return;
  const float* factors = task.factors + place.batch * task.factors_batch;
  const auto add_row = [&](Eight& sum, int64_t row) {
    add(sum, factors[row], read(place.in<const T>(all.g, row)));
  };
  Eight above = {};
  int64_t start[kShared] = {}, first = 0;
  for (int l = 0; l < task.levels; ++l) {
    if (l < kShared) start[l] = first;
    if (l + 1 >= kShared) add_row(above, first + (place.chunk * kTokens >> (l + 1)));
    first += task.rows[l];
  }
#pragma unroll
  for (int i = 0; i < kTokens; ++i) {
    const int64_t token = place.chunk * kTokens + i;
    if (token >= task.tokens) return;
    Eight sum = above;
#pragma unroll
    for (int l = 0; l + 1 < kShared; ++l)
      if (l < task.levels) add_row(sum, start[l] + (token >> (l + 1)));
    if (task.keep && !task.keep[place.batch * task.tokens + token]) sum = {};
    write(place.in<T>(all.dx, token), sum);
  }
}

// A group has one row of a level.
template <class T>
__global__ void __launch_bounds__(kThreads) starts(LevelStarts task, int64_t all, int lanes) {
  const Place place(task, all, lanes);
  if (!place.there) return;
  int64_t row = place.chunk;
  int l = 0;
  for (; row >= task.rows[l]; ++l) row -= task.rows[l];
  const int64_t token = row << (l + 1);
  Eight found = {};
  if (token < task.tokens) found = read(place.in<const T>(task.from, token));
  write(place.in<T>(task.to, place.chunk), found);
}

// A group has one token.
template <class T>
__global__ void __launch_bounds__(kThreads) starts_backward(LevelStarts task, int lanes) {
  const Place place(task, task.tokens, lanes);
  if (!place.there) return;
  Eight sum = {};
  int64_t first = 0;
  for (int l = 0; l < task.levels; ++l) {
    const int64_t row = place.chunk >> (l + 1);
    if (row << (l + 1) != place.chunk) break;
    add(sum, 1, read(place.in<const T>(task.from, first + row)));
    first += task.rows[l];
  }
  write(place.in<T>(task.to, place.chunk), sum);
}

struct Grid {
  int lanes = 1;
  unsigned blocks;
  template <class Task>
  Grid(const Task& task, int64_t chunks) {
    while (lanes * 8 < task.width) lanes *= 2;
    const int64_t threads = task.batch * task.heads * chunks * lanes;
    blocks = static_cast<unsigned>((threads + kThreads - 1) / kThreads);
  }
};

}  // namespace

void level_means_cuda(const LevelMeans& task, void* stream) noexcept {
  Stage stage = {.rows = task.tokens, .from = nullptr, .to = task.sums};
  int64_t first = 0;
  for (int done = 0; done < task.levels; done += kAtOnce) {
    stage.levels = task.levels - done < kAtOnce ? task.levels - done : kAtOnce;
    stage.chunks = 0;
    for (int l = 0; l < stage.levels; ++l) {
      stage.first[l] = first;
      stage.count[l] = task.rows[done + l];
      first += task.rows[done + l];
      const int64_t reach = (stage.count[l] * (int64_t{2} << l) + kChunk - 1) / kChunk;
      if (reach > stage.chunks) stage.chunks = reach;
    }
    stage.sums = (stage.rows + kChunk - 1) / kChunk;
    const bool last = done + kAtOnce >= task.levels;
    if (last) stage.to = nullptr;
    const Grid grid(task, stage.chunks);
    if (task.type == Element::bfloat16)
      launch(levels<__nv_bfloat16>, grid.blocks, kThreads, 0, stream, task, stage, grid.lanes);
    else
      launch(levels<__half>, grid.blocks, kThreads, 0, stream, task, stage, grid.lanes);
    if (last) return;
    stage.rows = stage.sums;
    stage.from = stage.to;
    stage.to += task.batch * task.heads * stage.sums * task.width;
  }
}

void level_starts_cuda(const LevelStarts& task, void* stream) noexcept {
  int64_t all = 0;
  for (int l = 0; l < task.levels; ++l) all += task.rows[l];
  const Grid grid(task, all);
  launch(task.type == Element::bfloat16 ? starts<__nv_bfloat16> : starts<__half>, grid.blocks,
         kThreads, 0, stream, task, all, grid.lanes);
}

void level_starts_backward_cuda(const LevelStarts& task, void* stream) noexcept {
  const Grid grid(task, task.tokens);
  launch(task.type == Element::bfloat16 ? starts_backward<__nv_bfloat16> : starts_backward<__half>,
         grid.blocks, kThreads, 0, stream, task, grid.lanes);
}

void level_means_backward_cuda(const LevelMeansBackward& task, void* stream) noexcept {
  const int64_t chunks = (task.past.tokens + kTokens - 1) / kTokens;
  const Grid grid(task.past, chunks);
  if (task.past.type == Element::bfloat16)
    launch(spread<__nv_bfloat16>, grid.blocks, kThreads, 0, stream, task, chunks, grid.lanes);
  else
    launch(spread<__half>, grid.blocks, kThreads, 0, stream, task, chunks, grid.lanes);
}

}  // namespace longbow::kernels
