#pragma once
// Diagonal linear systems, one for each channel: n modes, each of which fades and may turn,
//   s_t = exp(rate) s_{t-1} + u_t,   y_t = Re sum_n weight_n s_{t,n},
// which is a convolution with the kernel K_l = Re sum_n weight_n exp(l rate_n).
#include "longbow/nn/contract/context.h"
#include "longbow/ops/mode_convolution.h"

namespace longbow {

// rate [C, n], its real part not positive, and weight [C, n]; both real or both complex, in float32
// at least.
struct Modes {
  Tensor rate, weight;
};

// The lags 0 .. L - 1 of the kernel, real: [L, C]. No tensor of size C n L is made.
Tensor kernel_of(const Modes& modes, int64_t length);

// f(skip u + K * u + K' * u) over all tokens, channel by channel: u [B, N, C], zero where padded,
// modes [1 or 2, C, n] of K and, if there are two, of K', which reads later tokens from the first
// lag on; skip [C], f the activation. Of the type of u.
Tensor convolved(const Tensor& u, const Modes& modes, const Tensor& skip, FirstLag first,
                 ModeActivation activation);

// The modes after the tokens so far, in a lane of this name.
void open_modes(State& state, const std::string& name, int64_t lanes, const Modes& modes);
// y [B, T, C] of the next tokens u [B, T, C], which are zero where padded; `keep` [B, T] says which
// are not, undefined = all are real.
Tensor grow_modes(State& state, const std::string& name, const Tensor& u, const Modes& modes,
                  const Tensor& keep);

// Complex numbers as pairs of real ones, [..., n] -> [..., 2 n], and back. Real ones stay as they
// are.
Tensor as_pairs(const Tensor& x);
Tensor from_pairs(const Tensor& pairs);

}  // namespace longbow
