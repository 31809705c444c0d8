#pragma once
// A softmax over few slots for many tokens, all heads side by side:
//   y_i = sum_h sum_r p_ihr v_hr,   p_ih = softmax_r(x_i . k_hr + b_hr).
// Weights are computed again in the backward pass, so that no [N, H, R] tensor is stored: by
// ops/slot_mixture where it has kernels, elsewhere a piece of the tokens at a time.
#include "longbow/nn/softmax/softmax.h"

namespace longbow {

struct FixedSlots {
  Tensor keys, bias, values;  // [B, H, R, C]; [B, H, R], undefined = 0; [B, H, R, E]
  Tensor visible = {};        // [1 or B, 1 or H, 1 or N, R] bool; undefined = all
  int64_t piece = 0;          // tokens at a time, at most; 0 = what suits the device
};

// x [B, N, C] -> [B, N, E]. A token that sees no slot gets zero. Weights are dropped as those of
// uniform({B, N, H R}) are, in pieces of any size.
Tensor read_in_pieces(const Tensor& x, const FixedSlots& slots, const Weighing& weighing,
                      const Context& context);

}  // namespace longbow
