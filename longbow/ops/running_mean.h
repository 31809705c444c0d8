#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// channel_mean of the tokens up to each, with a gate: out_t = sigmoid(gate_t) sum_{j <= t} e^{k_j}
// v_j / sum_{j <= t} e^{k_j} in every channel, over the tokens that are kept; zero where there is
// none. gate, k, v [B, N, C] of one type; keep [B, N] bool or undefined. Sums are float32 at least.
// Twice differentiable.
at::Tensor running_mean(const at::Tensor& gate, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& keep = {});

// Whether a kernel does it: on a GPU in a half type. Elsewhere it has no advantage.
bool has_running_kernel(const at::Tensor& v);

}  // namespace longbow
