#pragma once
// Attention through R slots that tokens are written into as they come, each query reading what was
// written up to its own token:
//   K_t = f_t K_{t-1} + w_t k_t^T,   V_t = f_t V_{t-1} + w_t v_t^T,   [R, D], f_t and w_t [R],
//   o_t = softmax(q_t (K_t / n_t)^T) (V_t / n_t).
// K and V are never formed for all t: both are causal products, linear in N.
#include "longbow/nn/softmax/softmax.h"

namespace longbow {

struct Writing {
  Tensor weights;        // w [B, H, M, R], float32 at least, zero for padded tokens
  Tensor log_keep = {};  // ln f [B, H, M, R], zero for padded tokens; undefined = nothing fades
  Tensor divisor = {};   // n [B or 1, 1 or H, M, 1 or R]; undefined = 1
  Tensor visible = {};   // [B, 1 or H, M, R] bool, slots that may be read; undefined = all
};

// heads.q is scaled already; queries are aligned with the keys at the end when N != M. With a state
// the tokens are an extension, and what the lanes hold of the past is read and updated.
Tensor read_slots(const Heads& heads, const Writing& writing, const Weighing& weighing,
                  Context& context, State* state = nullptr);

// Empty slots: lanes "slot_keys" [B, H, D, R] and "slot_values" [B, H, R, D].
void open_slots(State& state, const Heads& empty, int64_t slots);

}  // namespace longbow
