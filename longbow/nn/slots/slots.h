#pragma once
// Attention through R slots that tokens are written into as they come. Each query reads what was
// written up to its own token:
//   K_t = f_t K_{t-1} + w_t k_t^T,   V_t = g_t V_{t-1} + u_t v_t^T,   [R, D]; f, g, w, u [R],
//   o_t = softmax(q_t (K_t / n_t + b)^T) (V_t / m_t + c).
// K and V are never formed for all t: both are causal products, linear in N.
#include "longbow/nn/softmax/softmax.h"

namespace longbow {

// Keys or values, and how they are written.
struct SlotRows {
  Tensor rows;           // [B, H, M, D]
  Tensor weights;        // w [B or 1, H or 1, M, R], float32 at least, zero for padded tokens
  Tensor log_keep = {};  // ln f [B, H, M, R], zero for padded tokens; undefined = nothing fades
  Tensor divisor = {};   // n, broadcast to [B, H, M, R]; undefined = 1
  Tensor bias = {};      // b, broadcast to [B, H, R, D]; undefined = 0
  Tensor sums = {};      // [B, H, R, D] before the first of these tokens; undefined = none
};

struct SlotReading {
  Tensor y;             // [B, H, N, D] in the type of the weights
  Tensor keys, values;  // the sums after the last token, where there were sums before
};

// q [B, H, N, D] is scaled already, and aligned with the keys at the end when N != M. `visible`,
// broadcast to [B, H, M, R], are slots that may be read; undefined = all.
SlotReading read_slots(const Tensor& q, const SlotRows& keys, const SlotRows& values,
                       const Tensor& visible, const Weighing& weighing, Context& context);

// The sums after these tokens, where nothing fades.
Tensor grown_slots(const SlotRows& written);

// Keys and values that are written alike.
struct Writing {
  Tensor weights;
  Tensor log_keep = {}, divisor = {}, visible = {};
};
// With a state the tokens are an extension, and what the lanes hold of the past is read and
// updated.
Tensor read_slots(const Heads& heads, const Writing& writing, const Weighing& weighing,
                  Context& context, State* state = nullptr);

// Empty slots: lanes "slot_keys" and "slot_values" [B, H, R, D].
void open_slots(State& state, const Heads& empty, int64_t slots);

}  // namespace longbow
