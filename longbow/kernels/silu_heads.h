#pragma once
// Several scaled copies of gates; ops/silu_heads.h defines them. Numbers are bfloat16 or float16,
// sums float32.
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

struct SiluHeads {
  static constexpr int kMostCopies = 4;
  static constexpr int64_t kMostWidth = 2048;
  Element type;
  int64_t tokens, width, stride;  // a multiple of 8, and from token to token of z
  int copies;
  const void *z, *gain, *offset;  // [tokens, width], [copies, width], [copies, width]
  void* y[kMostCopies];           // [tokens, width]
};
struct SiluHeadsBackward {
  SiluHeads past;  // its results are not read
  const void* dy[SiluHeads::kMostCopies];
  void* dz;
  int64_t parts;
  float* sums;  // [parts, 2, copies, width]: of the gradients of gain and of offset
};

// Into how many parts sums over tokens are split.
int64_t silu_heads_parts(const SiluHeads& task) noexcept;

void silu_heads_cuda(const SiluHeads& task, void* stream) noexcept;
void silu_heads_backward_cuda(const SiluHeadsBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels
