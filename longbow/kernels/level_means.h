#pragma once
// Means over 2, 4, 8, … tokens; ops/level_means.h defines it. Numbers are bfloat16 or float16, sums
// float32.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

struct LevelMeans {
  static constexpr int kMostLevels = 40, kAtOnce = 4;
  Element type;
  int64_t batch, heads, tokens, width;  // a multiple of 8 up to 256
  int levels;
  int64_t rows[kMostLevels];  // of each level
  HeadRows x;
  const bool* keep;       // [B, tokens] or null
  const float* factors;   // [1 or B, all rows]
  int64_t factors_batch;  // from sequence to sequence, 0 where all have the same
  HeadResults out;
  // Room for the sums of every kAtOnce-th level: [B, H, ceil(tokens / 2^kAtOnce), width] of the
  // first of them, and so on; null where there are no more levels than that.
  float* sums;
};

struct LevelMeansBackward {
  LevelMeans past;  // x, out and sums are not read
  HeadRows g;
  HeadResults dx;
};

// The first tokens instead of the means, and back.
struct LevelStarts {
  Element type;
  int64_t batch, heads, tokens, width;  // as above
  int levels;
  int64_t rows[LevelMeans::kMostLevels];
  HeadRows from;   // tokens; or gradients of all rows
  HeadResults to;  // all rows; or gradients of tokens
};

void level_starts_cuda(const LevelStarts& task, void* stream) noexcept;
void level_starts_backward_cuda(const LevelStarts& task, void* stream) noexcept;
void level_means_cuda(const LevelMeans& task, void* stream) noexcept;
void level_means_backward_cuda(const LevelMeansBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels
