#pragma once
// Gates of tokens, number by number, in bfloat16 or float16. Rows may stand apart; within a row
// there are no gaps. Widths and strides are multiples of 8, addresses of 16 bytes.
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

struct GateRows {
  void* data;
  int64_t stride;
};

// y = x silu(gate).
struct SiluProduct {
  Element type;
  int64_t tokens, width;
  GateRows x, gate, y;
};
struct SiluProductBackward {
  SiluProduct past;
  GateRows dy, dx, dgate;
};

// y = sigmoid(update) (silu(candidate + added) - x).
struct GatedStep {
  Element type;
  int64_t tokens, width;
  GateRows x, update, candidate, added, y;
};
struct GatedStepBackward {
  GatedStep past;
  GateRows dy, dx, dupdate, dcandidate;  // the last one is that of `added` too
};

void silu_product_cuda(const SiluProduct& task, void* stream) noexcept;
void silu_product_backward_cuda(const SiluProductBackward& task, void* stream) noexcept;
void gated_step_cuda(const GatedStep& task, void* stream) noexcept;
void gated_step_backward_cuda(const GatedStepBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels
