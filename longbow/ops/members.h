#pragma once
// Rows of tokens by cluster, and back: a token is in several clusters or in none, in each of them
// at most once.
#include <ATen/core/Tensor.h>

#include <optional>

namespace longbow {

struct Members {
  at::Tensor token;  // [B, H, K, W] int64
  at::Tensor place;  // [B, H, K, N] int32: where a token stands among all K W members, -1 = nowhere

  static Members of(const at::Tensor& token, int64_t tokens);
};

// How the rows of a token in several clusters count: each by itself, or divided by the number of
// clusters, which is at least 1, or by `added` more where that is not 0.
using Divided = std::optional<double>;

// x [B, H, N, D] -> [B, H, K W, D], the row of every member; and back, the sums of the rows of a
// token. Each is the gradient of the other.
at::Tensor take_members(const at::Tensor& x, const Members& members, Divided added = {});
at::Tensor sum_members(const at::Tensor& x, const Members& members, Divided added = {});

// The same in ATen alone.
at::Tensor take_members_formula(const at::Tensor& x, const at::Tensor& token,
                                const at::Tensor& place, Divided added);
at::Tensor sum_members_formula(const at::Tensor& x, const at::Tensor& token,
                               const at::Tensor& place, Divided added);

}  // namespace longbow
