#pragma once
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/running_weights.h"
#include "tests/support/tensor.h"

namespace longbow {

// The definition: weights, the same again and their sums.
inline RunningWeights dense_running_weights(const at::Tensor& logits, const at::Tensor& keep,
                                            double clip) {
  auto w = logits.clamp(-clip, clip).exp();
  if (keep.defined()) w = w.masked_fill(keep.logical_not().unsqueeze(-1), 0);
  return {w, w, w.cumsum(1)};
}

// weights, sums and dlogits in float64, of logits that lie among others and three gradients that
// lie beside each other.
template <class F>
std::vector<at::Tensor> running_weights_results(const at::Tensor& rows, const at::Tensor& slopes,
                                                const at::Tensor& keep,
                                                const at::TensorOptions& options, const F& of) {
  const int64_t c = slopes.size(2) / 3;
  const auto leaf = rows.to(options).requires_grad_(), all = slopes.to(options);
  const auto found =
      of(leaf.narrow(2, 2, c), keep.defined() ? keep.to(options.device()) : keep, 1.5);
  const auto part = [&](int64_t i) { return all.narrow(2, i * c, c); };
  const auto drows = torch::autograd::grad({found.weights, found.again, found.sums}, {leaf},
                                           {part(0), part(1), part(2)})[0];
  std::vector<at::Tensor> results = {found.weights, found.sums, drows.narrow(2, 2, c)};
  for (auto& one : results) one = one.detach().cpu().to(at::kDouble);
  return results;
}

}  // namespace longbow
