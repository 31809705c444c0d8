#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// Softmax attention over few keys: out_i = sum_r w_ir v_r with w_i = softmax over the visible r of
// q_i . k_r. q [B, H, N, E], k [B, H, R, E], v [B, H, R, D] -> [B, H, N, D]; q or k is scaled
// already. visible is bool and broadcasts to [B, H, R], or undefined; a query that sees nothing
// reads zero. Only the arguments are kept for the backward pass, which forms the weights again.
at::Tensor slot_softmax(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& visible = {});

// The same by ATen alone, with its N x R weights. The kernel is tested against it.
at::Tensor slot_softmax_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& visible = {});
struct SlotGradients {
  at::Tensor q, k, v;
};
SlotGradients slot_softmax_formula_backward(const at::Tensor& dout, const at::Tensor& q,
                                            const at::Tensor& k, const at::Tensor& v,
                                            const at::Tensor& visible = {});

// Whether kernels do it that write no weights to memory: on a GPU in a half type, for up to 64 keys
// and heads of up to 64 channels. Elsewhere it has no advantage.
bool has_slot_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

}  // namespace longbow
