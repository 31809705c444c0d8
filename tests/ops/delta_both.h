#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "longbow/ops/delta_product.h"
#include "longbow/ops/delta_products.h"
#include "tests/support/tensor.h"

namespace longbow {

// What is read in both directions and the gradients of both rows, beta and, where something fades,
// the decays; of both directions at once, or of two products. float64, on the CPU.
inline std::vector<at::Tensor> both_deltas(int64_t tokens, int64_t p, int64_t d, bool fades,
                                           const at::TensorOptions& numbers, bool at_once) {
  const auto wide = numbers.dtype(numbers.dtype() == at::kDouble ? at::kDouble : at::kFloat);
  const auto unit = [](const at::Tensor& x) { return x / x.norm(2, {-1}, true); };
  const auto drawn = [&](int64_t width, uint64_t seed) {
    return random_normal({2, 3, tokens, width}, seed);
  };
  std::vector<at::Tensor> leaves;
  for (const uint64_t seed : {1, 4})
    for (const auto& t : {unit(drawn(p, seed)), unit(drawn(p, seed + 1)), drawn(d, seed + 2)})
      leaves.push_back(t.to(at::kBFloat16).to(numbers));
  leaves.push_back(at::sigmoid(drawn(1, 7)).to(wide));
  if (fades) leaves.push_back((drawn(1, 8).abs() * -0.1).to(wide));
  for (auto& leaf : leaves) leaf.requires_grad_();
  const auto g = fades ? leaves[7] : at::Tensor();
  const auto one_way = [&](size_t first, bool reversed) {
    at::Tensor sums;
    return delta_product(leaves[first], leaves[first + 1], leaves[first + 2], leaves[6], g,
                         {.scale = 0.3, .reversed = reversed}, sums);
  };
  const auto [forth, back] =
      at_once ? delta_products({leaves[0], leaves[1], leaves[2]}, {leaves[3], leaves[4], leaves[5]},
                               leaves[6], g, 0.3)
              : DeltaReads{one_way(0, false), one_way(3, true)};
  const auto slope = [&](uint64_t seed) { return drawn(d, seed).to(at::kBFloat16).to(numbers); };
  ((forth * slope(9)).sum() + (back * slope(10)).sum()).backward();
  std::vector<at::Tensor> found = {forth.detach(), back.detach()};
  for (const auto& leaf : leaves) found.push_back(leaf.grad());
  for (auto& t : found) t = t.cpu().to(at::kDouble);
  return found;
}

}  // namespace longbow
