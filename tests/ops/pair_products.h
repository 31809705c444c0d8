#pragma once
// Problems for relu_product and top_product: arguments, and results with gradients.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/pair_product.h"
#include "tests/support/tensor.h"

namespace longbow {

struct PairProblem {
  int64_t queries, keys, width = 64, value_width = 64;
  bool causal = false, hides = false;
  int64_t budget = 0;  // keys that a query keeps; 0: the weights are relu

  std::string named() const {
    return c10::str(queries, " queries, ", keys, " keys, ", width, " and ", value_width,
                    causal ? ", causal" : "", hides ? ", some hidden" : "", ", ", budget, " kept");
  }
  PairSight sight(at::Device device) const {
    PairSight found = {.causal = causal, .scale = 0.25};
    if (!hides) return found;
    found.keep = random_normal({2, keys}, 5) > -0.5;
    found.keep[0].fill_(false);  // the first sequence has no keys
    found.keep = found.keep.to(device);
    return found;
  }
  at::Tensor budgets(at::Device device) const {
    return at::full({1, queries}, budget, at::TensorOptions(at::kInt).device(device));
  }
};

// out, dq, dk, dv of arguments that were rounded to a type, as heads of tokens [B, N, H, width].
inline std::vector<at::Tensor> pair_results(const PairProblem& p, at::ScalarType rounded,
                                            at::ScalarType computed, at::Device device) {
  const auto drawn = [&](int64_t tokens, int64_t width, uint64_t seed) {
    return random_normal({2, tokens, 3, width}, seed).to(rounded).to(device, computed);
  };
  const auto q = drawn(p.queries, p.width, 1).requires_grad_(),
             k = drawn(p.keys, p.width, 2).requires_grad_(),
             v = drawn(p.keys, p.value_width, 3).requires_grad_();
  const auto by_head = [](const at::Tensor& x) { return x.transpose(1, 2); };
  const auto sight = p.sight(device);
  const auto y =
      p.budget == 0
          ? relu_product(by_head(q), by_head(k), by_head(v), sight)
          : top_product(by_head(q), by_head(k), by_head(v), sight,
                        top_keys(by_head(q), by_head(k), sight, p.budgets(device), false));
  const auto g = drawn(p.queries, p.value_width, 4);
  auto found = torch::autograd::grad({y}, {q, k, v}, {by_head(g).to(y.scalar_type())});
  found.insert(found.begin(), y.detach());
  for (auto& x : found) x = x.cpu().to(at::kDouble);
  return found;
}

}  // namespace longbow
