#pragma once
// Problems of order_softmax for its tests.
#include <ATen/ATen.h>

#include <cmath>

#include "longbow/ops/block_softmax.h"
#include "longbow/ops/order_softmax.h"
#include "tests/support/tensor.h"

namespace longbow {

using at::Tensor;

struct OrderProblem {
  int64_t batch = 2, heads = 3, orders = 2, tokens = 20, places = 24, block = 4, width = 8,
          value_width = 8;
  bool causal = false, padded = false, grouped = false, itself = true;
  bool turned = false;  // heads and orders lie in memory the other way round

  // Each token stands somewhere in each order, the places that are left are empty.
  Orders standing() const {
    const auto shuffled =
        random_normal({batch, heads, orders, places}, 9).argsort(-1, /*descending=*/false);
    auto order = at::where(shuffled < tokens, shuffled, -1);
    if (turned) order = order.transpose(1, 2).contiguous().transpose(1, 2);
    return {order, shuffled.argsort(-1, false).narrow(3, 0, tokens).contiguous()};
  }
  BlockRule rule() const {
    const int64_t blocks = (places + block - 1) / block;
    const auto u = at::arange(blocks, at::kLong).unsqueeze(1);
    BlockRule made = {.pairs = {block, block, at::cat({u - 1, u}, 1).view({1, 1, blocks, 2}), 2},
                      .visibility = {.apart = 1},
                      .dropped = {},
                      .scale = 0.7};
    auto& seen = made.visibility;
    if (causal) seen.ahead = 0;
    if (padded) {
      seen.keep = at::ones({batch, 1, tokens}, at::kBool);
      seen.keep[0].narrow(1, tokens / 3, tokens - tokens / 3).fill_(false);
    }
    if (grouped)
      seen.query_groups = seen.key_groups =
          random_normal({batch, heads * orders, places}, 8).gt(0).to(at::kLong);
    return made;
  }
  Tensor q() const { return random_normal({batch, heads, tokens, width}, 1) / std::sqrt(width); }
  Tensor k() const { return random_normal({batch, heads, tokens, width}, 2); }
  Tensor v() const { return random_normal({batch, heads, tokens, value_width}, 3); }
};

}  // namespace longbow
