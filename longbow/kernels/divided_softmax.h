#pragma once
// A softmax over the numbers of each row, which are divided before and after it:
//   p = softmax(s / n), out = p / n with s = scale scores, n = max(divisor, least),
// and its gradient. Numbers are bfloat16 and are added up in float32.
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

constexpr int64_t kMostDivided = 256;  // numbers of a row, a multiple of 8

struct DividedSoftmax {
  HeadRows scores;    // [B, H, N, R]
  HeadRows divisor;   // as many, or one for each row; no data: 1
  bool wide, single;  // it is of float32; it is one for each row
  float least, scale;
  int64_t batch, heads, tokens, width;
  HeadRows gradient;     // of out; no data: the forward pass
  HeadResults out;       // or the gradient of the scores
  HeadResults ddivisor;  // no data: it is not asked for. Of bfloat16
};

void divided_softmax_cuda(const DividedSoftmax& task, void* stream) noexcept;

}  // namespace longbow::kernels
