#pragma once
// What global tokens read of all tokens, where neither keys nor values of these are formed: of a
// head with the query q
//   q . (W_k x_j + b_k) = (W_k^T q) . x_j + what is the same for all j,
//   sum_j w_j (W_v x_j + b_v) = W_v sum_j w_j x_j + b_v,
// so that a softmax over j takes rows of the width of x, and nothing else is as long as x.
#include "longbow/nn/contract/linear.h"

namespace longbow {

struct GlobalProjections {
  const Linear &query, &key, &value;
  int64_t heads;
  double scale;  // of scores
};

// The tokens at places [B, G] of x [B, N, C] read those that are visible, bool [1 or B, 1, 1 or G,
// N] or undefined = all: [B, H, G, D]. A token that sees nothing reads the bias of the values.
Tensor global_rows(const Tensor& x, const Tensor& places, const Tensor& visible,
                   const GlobalProjections& by);

}  // namespace longbow
