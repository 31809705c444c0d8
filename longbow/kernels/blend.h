#pragma once
// Fields of heads added up with a weight for each channel; ops/blend.h defines it. Numbers are
// bfloat16 or float16, sums float32.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

struct Blend {
  static constexpr int kMostFields = 4;
  static constexpr int64_t kMostChannels = 2048;  // of all heads
  Element type;
  int64_t batch, heads, tokens, width;  // a multiple of 8
  int fields;
  HeadRows from[kMostFields];
  const void* weights;  // [fields, heads, width]
  HeadResults out;
};

struct BlendBackward {
  Blend past;  // its result is not read
  HeadRows dout;
  HeadResults dfrom[Blend::kMostFields];
  int64_t parts;
  float* sums;  // [parts, fields, heads width], of the gradient of the weights
};

// Into how many parts sums over tokens are split.
int64_t blend_parts(const Blend& task) noexcept;

void blend_cuda(const Blend& task, void* stream) noexcept;
void blend_backward_cuda(const BlendBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels
