#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// What of the sums fades: the rows, one for each feature of y, or the columns, one for each channel
// of z.
enum class Fading { rows, columns };

// The causal product of sums that fade: A_t = exp(g_t) A_{t-1} + y_t z_t^T, out_t = x_t^T A_t. x, y
// [..., N, p], z [..., N, q]; g = log_decay <= 0 is [..., N, p or 1] for rows and [..., N, h] for
// columns, where h divides q: blocks of q / h columns beside each other fade alike. `sums`
// [..., p, q] are those before the first token, undefined = none, and become those after the last.
// No exponent is positive, so nothing overflows, and a decay of nothing, g = -1e30, is exact. Pairs
// within `chunk` tokens, a power of two, are products; the sums before each chunk are a scan, so
// that N tokens take O(log N) operators.
at::Tensor decayed_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& z,
                           const at::Tensor& log_decay, Fading fading, at::Tensor& sums,
                           int64_t chunk = 64);

}  // namespace longbow
