#pragma once
// Rows for group_softmax_: scores and gradients after it.
#include <ATen/ATen.h>

#include "longbow/core/seed.h"
#include "longbow/ops/group_softmax.h"
#include "tests/support/tensor.h"

namespace longbow {

struct GroupProblem {
  int64_t group, groups = 3, count = 5;
  double rate = 0;
};

// Two slabs of `count` rows from row 2 on, of 9 in each: weights alone, then weights and gradient.
inline std::vector<at::Tensor> group_results(const GroupProblem& p, at::ScalarType type,
                                             at::Device device) {
  const std::vector<int64_t> shape = {2, p.count, p.group * p.groups};
  const auto drawn = [&](uint64_t seed) {
    return (random_normal(shape, seed) * 3).to(device, type);
  };
  const DroppedRows dropped = {.key = at::tensor({7, 3}, at::kLong).to(device),
                               .site = hash_name("weights"),
                               .rate = p.rate,
                               .rows = p.count + 4,
                               .row = 2};
  auto alone = drawn(1), both = drawn(1), gradient = drawn(2);
  group_softmax_(alone, p.group, dropped);
  group_softmax_backward_(both, gradient, p.group, dropped);
  return {alone.cpu().to(at::kDouble), both.cpu().to(at::kDouble), gradient.cpu().to(at::kDouble)};
}

}  // namespace longbow
