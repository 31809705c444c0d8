#pragma once
// Tokens in several orders at once, and what was read in each order as one softmax.
#include "longbow/ops/join_softmax.h"

namespace longbow {

struct Orders {
  // [B, H, R, N] int64: place p of order r holds token order[.., r, p], and token t stands at
  // place inverse[.., r, t].
  at::Tensor order, inverse;
};

// x [B, H, N, D] -> [B, H, R, places, D]: the tokens in each order, and zeros behind them.
at::Tensor in_orders(const at::Tensor& x, const Orders& orders, int64_t places);

// Parts by place, [B, H, R, places, D] and [B, H, R, places, 1], joined over the orders of a token:
// [B, H, N, D] and [B, H, N, 1].
SoftmaxPart join_orders(const SoftmaxPart& parts, const Orders& orders);

// The same in ATen alone, with the gradients of x and of both parts.
at::Tensor in_orders_formula(const at::Tensor& x, const at::Tensor& order, int64_t places);
at::Tensor in_orders_formula_backward(const at::Tensor& gradient, const at::Tensor& inverse);
SoftmaxPart join_orders_formula(const SoftmaxPart& parts, const at::Tensor& inverse);
SoftmaxPart join_orders_formula_backward(const SoftmaxPart& gradient, const SoftmaxPart& parts,
                                         const Orders& orders);

}  // namespace longbow
