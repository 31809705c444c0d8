#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// Weights of tokens and their sums up to each: w = exp(min(max(logits, -clip), clip)), 0 of tokens
// that are not kept. logits [B, N, C], keep [B, N] bool or undefined. In the type of the logits;
// sums are of float32 at least. Twice differentiable.
struct RunningWeights {
  // The same numbers twice, for two who read them: their gradients are added up on the way.
  at::Tensor weights, again;
  at::Tensor sums;
};
RunningWeights running_weights(const at::Tensor& logits, const at::Tensor& keep, double clip);

// Whether a kernel does it: on a GPU in bfloat16. Elsewhere it has no advantage.
bool has_running_weights_kernel(const at::Tensor& logits);

}  // namespace longbow
