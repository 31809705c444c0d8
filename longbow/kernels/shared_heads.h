#pragma once
// Sums of rows of heads, several at once and beside each other; ops/shared_heads.h says what for.
// Numbers are bfloat16 or float16, added up in float32.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

struct SumHeads {
  static constexpr int kMostParts = 4, kMostTerms = 4;
  struct Part {
    int64_t heads, width;  // a multiple of 8
    int terms;
    HeadRows from[kMostTerms];  // [B, heads, tokens, width]
  };
  Element type;
  int64_t batch, tokens;
  int parts;
  Part part[kMostParts];
  void* out;  // [B, tokens, sum of heads width], 16-byte aligned
};

void sum_heads_cuda(const SumHeads& task, void* stream) noexcept;

}  // namespace longbow::kernels
