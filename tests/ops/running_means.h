#pragma once
#include <ATen/ATen.h>

#include <limits>

namespace longbow {

// The definition, pair by pair.
inline at::Tensor dense_running_mean(const at::Tensor& gate, const at::Tensor& k,
                                     const at::Tensor& v, const at::Tensor& keep) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const int64_t n = v.size(1);
  auto hidden = at::ones({n, n}, at::kBool).triu_(1).unsqueeze(0);  // [1 or B, N, N]
  if (keep.defined()) hidden = hidden.logical_or(keep.logical_not().unsqueeze(1));
  const auto scores = k.unsqueeze(1).expand({-1, n, -1, -1});
  const auto weights = at::_safe_softmax(scores.masked_fill(hidden.unsqueeze(-1), -kInfinity), 2);
  return gate.sigmoid() * (weights * v.unsqueeze(1)).sum(2);
}

}  // namespace longbow
