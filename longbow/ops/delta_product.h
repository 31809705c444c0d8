#pragma once
#include <ATen/core/Tensor.h>

#include "longbow/ops/delta_product_formula.h"

namespace longbow {

// The delta rule over sums that fade: what the sums hold for a key moves toward its value,
//   A_t = exp(g_t) A_{t-1},   S_t = A_t + beta_t k_t (v_t - A_t^T k_t)^T,   out_t = scale q_t^T
//   S_t.
// q, k [..., N, p], v [..., N, q]; beta and log_decay g <= 0 are [..., N, 1], g undefined = nothing
// fades. `sums` S [..., p, q] are those before the first token, undefined = none, and become those
// after the last; reversed, the last token is the first. beta = 0 and g = 0 leave them as they are.
// q, k and v may be of a half type, in which out then is; beta, decays and sums are float32 at
// least. No exponent is positive. |k| <= 1 and 0 <= beta <= 2 keep the sums bounded; longer keys do
// not.
at::Tensor delta_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const at::Tensor& beta, const at::Tensor& log_decay,
                         const DeltaProduct& how, at::Tensor& sums);

// Whether a GPU has kernels for it; otherwise it runs the formula. Kernels have no second
// derivative.
bool has_delta_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const at::Tensor& beta, const at::Tensor& log_decay);

}  // namespace longbow
