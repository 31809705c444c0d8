#pragma once
// A memory of R slots that grows with the sequence. Token i adds w_ir k_i to the key of slot r and
// u_ir v_i to its value; query t reads what was written up to t:
//   K~_t = sum_{i <= t} w_i k_i^T / z_t,   V~_t = sum_{i <= t} u_i v_i^T / y_t,
//   o_t = softmax(q_t K~_t^T) V~_t,
// by two causal products, linear in the length; neither K~_t nor V~_t is formed for every t.
#include "longbow/nn/softmax/softmax.h"

namespace longbow {

// Of keys or of values; all in one type.
struct Written {
  Tensor rows;          // [B, H, T, D], zero where padded
  Tensor weights;       // [B or 1, H or 1, T, R]
  Tensor divisor = {};  // z, broadcast to [B, H, T, R]; undefined = 1
  Tensor bias = {};     // broadcast to [B, H, R, D], added to every slot; undefined = none
  Tensor past = {};     // [B, H, R, D], the sums before the first of these tokens; undefined = none
};

// q [B, H, T, D] scaled already; `visible` broadcast to [B, H, T, R], undefined = all slots.
Tensor read_memory(const Tensor& q, const Written& keys, const Written& values,
                   const Tensor& visible, const Weighing& weighing, Context& context);

// The sums after these tokens.
Tensor grown_memory(const Written& written);

}  // namespace longbow
