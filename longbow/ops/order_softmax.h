#pragma once
// Softmax attention among tokens that stand beside each other in several orders.
#include "longbow/ops/block_rule.h"
#include "longbow/ops/orders.h"

namespace longbow {

// Each order puts the tokens at places, which are the queries and keys of block_softmax; all orders
// are one softmax, in which a pair that several orders show counts as often:
//   join_orders(block_softmax(in_orders(q), in_orders(k), in_orders(v), ...)),
// read where the tokens lie. q, k [B, H, N, E], v [B, H, N, D]. The orders are [B, H, R, places]
// and [B, H, R, N]; a place whose token is not one of 0 ... N - 1 is empty. Positions of the rule
// are tokens, `keep` is [1 or B, 1, N], groups are [1 or B, 1 or H R, places]; nothing is added or
// dropped. A token that sees nothing reads its own value with `itself`, else zero.
// out [B, H, N, D], log_sum [B, H, N, 1] in float32 at least, -infinity where nothing was seen.
SoftmaxPart order_softmax(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const Orders& orders, const BlockRule& rule, bool itself);

// Whether kernels do it that copy no rows: on a GPU in a half type. Elsewhere it has no advantage.
bool has_order_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

// The same in ATen alone, and the gradients of q, k and v.
SoftmaxPart order_softmax_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const Orders& orders, const BlockRule& rule, bool itself);
struct OrderGradients {
  at::Tensor q, k, v;
};
OrderGradients order_softmax_formula_backward(const SoftmaxPart& gradient, const at::Tensor& q,
                                              const at::Tensor& k, const at::Tensor& v,
                                              const Orders& orders, const BlockRule& rule,
                                              bool itself);

}  // namespace longbow
