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
  const auto qs = q.split(1, 2), ks = k.split(1, 2), vs = v.split(1, 2), betas = beta.split(1, 2);
  const auto gs = g.defined() ? g.split(1, 2) : std::vector<at::Tensor>();
  std::vector<at::Tensor> rows(qs.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t t = how.reversed ? rows.size() - 1 - i : i;
    if (g.defined()) sums = sums * gs[t].exp();
    const auto correction = betas[t] * (vs[t] - ks[t].matmul(sums));
    sums = sums + ks[t].transpose(-2, -1).matmul(correction);
    rows[t] = qs[t].matmul(sums) * how.scale;
  }
  return at::cat(rows, 2);
}

}  // namespace longbow
