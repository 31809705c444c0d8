#pragma once
#include <ATen/ATen.h>

#include "longbow/ops/random_past.h"
#include "tests/ops/random_products.h"

namespace longbow {

// The definition, weight by weight, without peaks.
inline SoftmaxPart dense_random_past(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const RandomProduct& how, int64_t behind) {
  const auto phi = [&](const at::Tensor& x) {
    const auto y = x * how.scale;
    return (at::einsum("bhne,hpe->bhnp", {y, how.omega.expand({x.size(1), -1, -1})}) -
            (y * y).sum(-1, true) / 2)
        .exp();
  };
  auto w = phi(q).matmul(phi(k).transpose(-2, -1)) / static_cast<double>(how.omega.size(1));
  if (how.keep.defined()) w = w * how.keep.unsqueeze(1).unsqueeze(1);
  w = w.tril(-behind);
  const auto sum = w.sum(-1, true);
  const auto seen = sum > 0;
  return {(w / at::where(seen, sum, 1)).matmul(v),
          at::where(seen, sum, 1).log().masked_fill(seen.logical_not(), -INFINITY)};
}

// out, log_sum, dq, dk, dv; float64, on the CPU.
template <class F>
std::vector<at::Tensor> random_past_results(const RandomInputs& in, RandomProduct how,
                                            int64_t behind, const at::TensorOptions& options,
                                            const F& product) {
  const auto given = [&](const at::Tensor& t) {
    return t.to(options, false, true).requires_grad_();
  };
  const auto q = given(in.q), k = given(in.k), v = given(in.v);
  how.omega = how.omega.to(options);
  if (how.keep.defined()) how.keep = how.keep.to(options.device());
  const SoftmaxPart part = product(q, k, v, how, behind);
  // Each logarithm with another slope; where nothing is seen it has none.
  const auto slopes = in.g.narrow(3, 0, 1).to(part.log_sum.options());
  const auto logs = part.log_sum.masked_fill(part.log_sum.isneginf(), 0);
  const auto nothing = (q.sum() + k.sum() + v.sum()) * 0;  // has gradients where no key is seen
  ((part.out * in.g.to(options)).sum() + (logs * slopes).sum() + nothing).backward();
  std::vector<at::Tensor> results;
  for (const auto& t : {part.out, logs, q.grad(), k.grad(), v.grad()})
    results.push_back(t.detach().cpu().to(at::kDouble));
  return results;
}

}  // namespace longbow
