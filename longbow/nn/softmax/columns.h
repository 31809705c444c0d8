#pragma once
// Tokens that stand on a grid of rows, one row after another: a column is every `columns`-th token.
#include "longbow/nn/softmax/blocks.h"
#include "longbow/ops/orders.h"

namespace longbow {

// Column after column, [B, H, 1, rows columns] for heads [B, H, N, D]; some places of the last row
// have no token.
Orders column_orders(const Tensor& heads, int64_t columns);
// Every column reads itself.
BlockPairs column_pairs(const Tensor& heads, int64_t columns);

// Softmax within columns, read where the tokens lie: for has_order_kernel (ops/order_softmax.h).
PartialSoftmax read_columns(const Heads& heads, int64_t columns, const Visibility& visibility,
                            double scale);

}  // namespace longbow
