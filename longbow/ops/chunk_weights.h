#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace longbow {

// Softmax weights of one head within chunks of T tokens:
//   w_ij = softmax_j(scale q_i . k_j + bias_{j - i}),   over j <= i where causal.
// q, k [B, N, E], N a multiple of T; bias [2 T - 1], of the distances 1 - T … T - 1, float32 at
// least -> [B, N / T, T, T] in the type of q.
at::Tensor chunk_weights(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias,
                         int64_t tokens, double scale, bool causal);

// Whether a GPU has kernels for it; otherwise it runs the formula.
bool has_chunk_kernel(const at::Tensor& q, int64_t tokens);

// The same in ATen alone, and the gradients of q, k and the bias.
at::Tensor chunk_weights_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias,
                                 int64_t tokens, double scale, bool causal);
std::tuple<at::Tensor, at::Tensor, at::Tensor> chunk_weights_formula_backward(
    const at::Tensor& dweights, const at::Tensor& weights, const at::Tensor& q, const at::Tensor& k,
    const at::Tensor& bias, int64_t tokens, double scale, bool causal);

}  // namespace longbow
