#pragma once
// What block_softmax is given besides the tensors that have a gradient, and the form in which the
// registered operators take it.
#include <ATen/core/List.h>

#include <optional>
#include <vector>

#include "longbow/ops/block_softmax.h"

namespace longbow {

struct BlockRule {
  BlockPairs pairs;
  Visibility visibility;
  DroppedWeights dropped;
};

using OptionalTensors = c10::List<std::optional<at::Tensor>>;
struct PackedRule {
  OptionalTensors tensors;       // columns, keep, positions, groups, the key of what is dropped
  std::vector<int64_t> numbers;  // query_block, key_block, back, ahead, self, site
  double rate;
};
PackedRule packed(const BlockRule& rule);
BlockRule unpacked(const OptionalTensors& tensors, at::IntArrayRef numbers, double rate);

// The arguments and results of the forward pass, and the gradients of its results.
struct BlockSoftmaxPast {
  at::Tensor q, k, v, bias, out, log_sum, dout, dlog_sum;
  bool wants_bias;  // whether the gradient of bias is asked for
};

}  // namespace longbow
