#pragma once
// A BlockRule in the form in which the registered operators take it.
#include <ATen/core/List.h>

#include <optional>
#include <vector>

#include "longbow/ops/block_rule.h"

namespace longbow {

using OptionalTensors = c10::List<std::optional<at::Tensor>>;
struct PackedRule {
  // columns, keep, positions, groups, the bias of keys, the key of what is dropped
  OptionalTensors tensors;
  std::vector<int64_t> numbers;  // query_block, key_block, back, ahead, apart, site, low, high,
                                 // readers, first, and those of the memory
  std::vector<double> factors;   // the rate of what is dropped, the scale of scores

  // For a backward pass, which notices what was changed in place: `saved` and the tensors of the
  // rule after them, which it has no longer.
  std::vector<at::Tensor> moved_behind(std::vector<at::Tensor> saved);
};
// The tensors of a rule from saved[first] on.
OptionalTensors rule_tensors(const std::vector<at::Tensor>& saved, size_t first);
PackedRule packed(const BlockRule& rule);
BlockRule unpacked(const OptionalTensors& tensors, at::IntArrayRef numbers,
                   at::ArrayRef<double> factors);

}  // namespace longbow
