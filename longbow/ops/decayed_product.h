#pragma once
#include <ATen/core/Tensor.h>

#include "longbow/ops/decayed_product_formula.h"

namespace longbow {

// The causal product of sums that fade: A_t = exp(g_t) A_{t-1} + y_t z_t^T, out_t = scale x_t^T
// A_t. x, y [..., N, p], z [..., N, q]; g = log_decay <= 0 is [..., N, p or 1] for rows and [...,
// N, h] for columns, where h divides q: blocks of q / h columns beside each other fade alike.
// `sums` [..., p, q], or what broadcasts to it, are those before the first token, undefined = none,
// and become those after the last; reversed, the last token is the first. x, y and z may be of a
// half type, in which out then is; the decays and sums are float32 at least. No exponent is
// positive, so nothing overflows, and a decay of nothing, g = -1e30, is exact.
at::Tensor decayed_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& z,
                           const at::Tensor& log_decay, const DecayedProduct& how,
                           at::Tensor& sums);

// The same without sums before it in both directions, `how` being not reversed.
struct BothWays {
  at::Tensor forth, back;
};
BothWays decayed_products(const at::Tensor& x, const at::Tensor& y, const at::Tensor& z,
                          const at::Tensor& log_decay, const DecayedProduct& how);

// Whether columns fade by blocks, or all rows and columns alike: as one block.
bool fades_by_block(const at::Tensor& log_decay, Fading fading);
// Whether there are kernels for it: on a GPU in bfloat16, on a CPU in any type; otherwise it runs
// the formula. Kernels have no second derivative.
bool has_decay_kernel(const at::Tensor& x, const at::Tensor& y, const at::Tensor& z,
                      const at::Tensor& log_decay, Fading fading);

}  // namespace longbow
