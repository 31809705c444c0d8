#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "longbow/ops/delta_product.h"
#include "tests/support/tensor.h"

namespace longbow {

// The recurrence, token by token: out, and the sums become those after the last.
inline at::Tensor delta_recurrence(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const at::Tensor& beta, const at::Tensor& g,
                                   const DeltaProduct& how, at::Tensor& sums) {
  std::vector<at::Tensor> rows(static_cast<size_t>(q.size(2)));
  for (int64_t i = 0; i < q.size(2); ++i) {
    const int64_t t = how.reversed ? q.size(2) - 1 - i : i;
    const auto row = [&](const at::Tensor& all) { return all.narrow(2, t, 1); };
    if (g.defined()) sums = sums * row(g).exp();
    const auto correction = row(beta) * (row(v) - row(k).matmul(sums));
    sums = sums + row(k).transpose(-2, -1).matmul(correction);
    rows[static_cast<size_t>(t)] = row(q).matmul(sums) * how.scale;
  }
  return at::cat(rows, 2);
}

}  // namespace longbow
