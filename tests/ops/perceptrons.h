#pragma once
// Arguments of a perceptron, and what both of its passes make of them.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/core/seed.h"
#include "longbow/ops/perceptron.h"
#include "tests/support/tensor.h"

namespace longbow {

struct PerceptronProblem {
  int64_t tokens, units, width = 64, out = 64;
  kernels::Curve curve = kernels::Curve::gelu;
  double rate = 0;
};

// y, dx, dup, dup_bias, ddown and ddown_bias, of arguments that float32 represents.
template <class Function>
std::vector<at::Tensor> perceptron_results(const Function& function, const PerceptronProblem& p,
                                           at::ScalarType type, at::Device device) {
  const auto drawn = [&](std::vector<int64_t> shape, uint64_t seed) {
    return random_normal(shape, seed).to(at::kFloat).to(device, type);
  };
  const std::vector<at::Tensor> leaves = {drawn({2, p.tokens, p.width}, 1).requires_grad_(),
                                          drawn({p.units, p.width}, 2).mul_(0.25).requires_grad_(),
                                          drawn({p.units}, 3).requires_grad_(),
                                          drawn({p.out, p.units}, 4).requires_grad_(),
                                          drawn({p.out}, 5).requires_grad_()};
  const PerceptronLayer layer = {
      leaves[1], leaves[2], leaves[3],
      leaves[4], p.curve,   {p.rate, at::tensor({7, 3}, at::kLong).to(device), hash_name("units")}};
  const auto y = function(leaves[0], layer);
  auto found = torch::autograd::grad({y}, leaves, {drawn({2, p.tokens, p.out}, 6)});
  found.insert(found.begin(), y.detach());
  for (auto& one : found) one = one.cpu().to(at::kDouble);
  return found;
}

}  // namespace longbow
