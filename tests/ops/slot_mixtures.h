#pragma once
// Arguments of slot_mixture, and what both of its passes make of them.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "longbow/core/seed.h"
#include "longbow/ops/slot_mixture.h"
#include "tests/support/tensor.h"

namespace longbow {

struct MixtureSizes {
  int64_t tokens, slots, heads = 2, width = 64, value_width = 64, batch = 2, lanes = 1;
};
enum class SlotBias { none, all, hides };  // hides: some slots, and all of the first sequence

struct MixtureProblem {
  MixtureSizes size;
  SlotBias bias = SlotBias::none;
  double rate = 0;
};

inline Drop mixture_drop(double rate, at::Device device) {
  return {rate, at::tensor({7, 3}, at::kLong).to(device), hash_name("weights")};
}

// The result, dx, dkeys, dvalues and, where there is one, dbias, of arguments that float32
// represents.
template <class Function>
std::vector<at::Tensor> mixture_results(const Function& function, const MixtureProblem& p,
                                        at::ScalarType type, at::Device device) {
  const auto& s = p.size;
  const auto drawn = [&](std::vector<int64_t> shape, uint64_t seed) {
    return random_normal(shape, seed).to(at::kFloat).to(device, type);
  };
  // Tokens of the lanes stand beside each other, as heads do behind a projection.
  const auto
      x = drawn({s.batch, s.tokens, s.lanes, s.width}, 1).transpose(1, 2).requires_grad_(),
      keys = drawn({s.batch, s.lanes, s.heads, s.slots, s.width}, 2).mul_(0.25).requires_grad_(),
      values = drawn({s.batch, s.lanes, s.heads, s.slots, s.value_width}, 3).requires_grad_();
  std::vector<at::Tensor> leaves = {x, keys, values};
  at::Tensor bias;
  if (p.bias != SlotBias::none) {
    bias = drawn({s.batch, s.lanes, s.heads, s.slots}, 4);
    if (p.bias == SlotBias::hides) {
      bias.masked_fill_(bias > 1, -std::numeric_limits<double>::infinity());
      bias[0].fill_(-std::numeric_limits<double>::infinity());
    }
    leaves.push_back(bias.requires_grad_());
  }
  const auto y = function(x, keys, values, bias, mixture_drop(p.rate, device));
  const auto slope = drawn({s.batch, s.lanes, s.tokens, s.value_width}, 5);
  auto found = torch::autograd::grad({y}, leaves, {slope});
  found.insert(found.begin(), y.detach());
  for (auto& one : found) one = one.cpu().to(at::kDouble);
  return found;
}

}  // namespace longbow
