#pragma once
// Attention through R slots that tokens are written into as they come. Each query reads what was
// written up to its own token:
//   K_t = f_t K_{t-1} + w_t k_t^T,   V_t = g_t V_{t-1} + u_t v_t^T,   [R, D]; f, g, w, u [R],
//   o_t = softmax(q_t (K_t / n_t + b)^T) (V_t / m_t + c).
// K and V are never formed for all t: both are causal products, linear in N.
#include "longbow/nn/softmax/softmax.h"

namespace longbow {

// The type of the weights with which keys and values are written: bfloat16 where kernels add up
// what such weights write, in float32, and otherwise float32 at least. `grows`: there is a state.
at::ScalarType slot_type(const Tensor& k, const Tensor& v, int64_t slots, bool grows);

// The sums of weights [B, H, M, R] up to each token, which a divisor may be: in their type, but
// added up in float32 at least.
Tensor running_sums(const Tensor& weights);

// Keys or values, and how they are written.
struct SlotRows {
  Tensor rows;           // [B, H, M, D]
  Tensor weights;        // w [B or 1, H or 1, M, R], of slot_type, zero for padded tokens
  Tensor log_keep = {};  // ln f [B, H, M, R], zero for padded tokens; undefined = nothing fades
  Tensor divisor = {};   // n, broadcast to [B, H, M, R]; undefined = 1
  double least = 0;      // n is at least this
  Tensor bias = {};      // b, broadcast to [B, H, R, D]; undefined = 0
  Tensor sums = {};      // [B, H, R, D] before the first of these tokens; undefined = none
  double scale = 1;      // of keys: what the scores are multiplied by
};

struct SlotReading {
  Tensor y;             // [B, H, N, D] in the type of the weights
  Tensor keys, values;  // the sums after the last token, where there were sums before
};

// q [B, H, N, D] is scaled already, or by `keys`, and aligned with the keys at the end when N != M.
// `visible`, broadcast to [B, H, M, R], are slots that may be read; undefined = all.
SlotReading read_slots(const Tensor& q, const SlotRows& keys, const SlotRows& values,
                       const Tensor& visible, const Weighing& weighing, Context& context);

// The sums after these tokens, where nothing fades.
Tensor grown_slots(const SlotRows& written);

// Keys and values that are written alike.
struct Writing {
  Tensor weights;
  Tensor log_keep = {}, divisor = {}, visible = {};
  double least = 0;   // of the divisor
  double scale = 1;   // what the scores are multiplied by
  Tensor again = {};  // weights for the values, with a gradient of their own; undefined = weights
};
// With a state the tokens are an extension, and what the lanes hold of the past is read and
// updated.
Tensor read_slots(const Heads& heads, const Writing& writing, const Weighing& weighing,
                  Context& context, State* state = nullptr);

// Empty slots: lanes "slot_keys" and "slot_values" [B, H, R, D].
void open_slots(State& state, const Heads& empty, int64_t slots);

}  // namespace longbow
