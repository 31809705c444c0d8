#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// Rows and columns of exp(x) divided by their sums in turn, `iterations` times: nearly doubly
// stochastic (Sinkhorn). x [..., R, K]. With r and c the logarithms of all these sums, added up,
// the result is exp(x - r - c); only x and the sums are kept for the backward pass.
at::Tensor doubly_stochastic(const at::Tensor& x, int64_t iterations);

// Whether a kernel does it in one launch: on a GPU in float32, for up to 128 rows and columns.
bool has_doubly_stochastic_kernel(const at::Tensor& x);

// The same in ATen alone, with the logarithms of the sums [..., iterations, R + K], and the
// gradient of x.
struct DoublyStochastic {
  at::Tensor out, sums;
};
DoublyStochastic doubly_stochastic_formula(const at::Tensor& x, int64_t iterations);
at::Tensor doubly_stochastic_formula_backward(const at::Tensor& dout, const at::Tensor& x,
                                              const at::Tensor& sums);

}  // namespace longbow
