#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// The sums of a state-space layer in one direction. A token has numbers x [P] for each of H heads,
// and keys b and queries c [n] that the heads of a group share; a matrix for each head fades by
// exp(g_t), and
//   A_t = exp(g_t) A_{t-1} + b_t (s_t x_t)^T,   out_t = A_t^T c_t + d x_t.
struct StateSpace {
  int64_t groups = 1, state = 0;  // n
  bool reversed = false;          // from the last token to the first
};

// rows [B, N, H P + 2 G n] have x, b and c of a token beside each other; the steps s and g =
// log_decay <= 0 are [B, N, H], float32 at least; skip d [H]. Returns [B, N, H P]. `sums` [B, G, n,
// H P / G] are those before the first token, undefined = none, and become those after the last.
at::Tensor state_space(const at::Tensor& rows, const at::Tensor& step, const at::Tensor& log_decay,
                       const at::Tensor& skip, const StateSpace& how, at::Tensor& sums);

// Whether a GPU has kernels for it; otherwise it runs the formula. Kernels have no second
// derivative.
bool has_state_space_kernel(const at::Tensor& rows, const at::Tensor& step,
                            const at::Tensor& log_decay, const StateSpace& how);
// And whether there is one for a single token, which reads and writes the sums once; without a
// gradient.
bool has_state_token_kernel(const at::Tensor& rows, const at::Tensor& step,
                            const at::Tensor& log_decay);

// The same by ATen alone. The kernel is tested against it.
at::Tensor state_space_formula(const at::Tensor& rows, const at::Tensor& step,
                               const at::Tensor& log_decay, const at::Tensor& skip,
                               const StateSpace& how, at::Tensor& sums);

// The parts of rows and what goes with them as decayed_product takes them, by group: x [B, G, N, H
// P / G], b, c [B, G, N, n], step and log_decay [B, G, N, H / G]. All are views.
struct StateSpaceParts {
  at::Tensor x, b, c, step, log_decay;
};
StateSpaceParts state_space_parts(const at::Tensor& rows, const at::Tensor& step,
                                  const at::Tensor& log_decay, int64_t groups, int64_t state);

}  // namespace longbow
