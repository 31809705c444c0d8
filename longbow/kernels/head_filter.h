#pragma once
// A filter over the tokens of each head on tensor cores; ops/head_filter.h defines it. Numbers are
// bfloat16 or float16, sums float32.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

constexpr int64_t kMostFilterTaps = 33, kMostFilteredWidth = 64;

struct HeadFilter {
  Element type;
  int64_t batch, heads, tokens, width, taps;  // width a multiple of 8, taps odd
  HeadRows x;
  const float* filter;  // [H, taps]
  int64_t span;         // tokens of a thread block, as in head_span.h
  HeadResults out;
};

struct HeadFilterBackward {
  HeadFilter past;  // `out` is dx
  HeadRows dout;
  float* dfilter;  // [spans, B, H, taps], to be added up
};

void head_filter_cuda(const HeadFilter& task, void* stream) noexcept;
void head_filter_backward_cuda(const HeadFilterBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels
