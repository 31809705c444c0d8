#include "longbow/ops/packed_rule.h"

#include <ATen/core/ivalue.h>

namespace longbow {

using at::Tensor;

std::vector<Tensor> PackedRule::moved_behind(std::vector<Tensor> saved) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::optional<Tensor> tensor = tensors[i];
    saved.push_back(tensor.value_or(Tensor()));
  }
  tensors = OptionalTensors();
  return saved;
}

OptionalTensors rule_tensors(const std::vector<Tensor>& saved, size_t first) {
  OptionalTensors tensors;
  for (size_t i = first; i < saved.size(); ++i)
    tensors.push_back(saved[i].defined() ? std::optional(saved[i]) : std::nullopt);
  return tensors;
}

PackedRule packed(const BlockRule& rule) {
  const auto& [pairs, visibility, dropped, distances, scale] = rule;
  const auto& memory = visibility.memory;
  OptionalTensors tensors;
  for (const auto& tensor :
       {pairs.columns, visibility.keep, visibility.query_positions, visibility.key_positions,
        visibility.query_groups, visibility.key_groups, visibility.key_bias, dropped.key})
    tensors.push_back(tensor.defined() ? std::optional(tensor) : std::nullopt);
  return {tensors,
          {pairs.query_block, pairs.key_block, visibility.back, visibility.ahead, visibility.apart,
           static_cast<int64_t>(dropped.site), distances.low, distances.high, pairs.readers,
           visibility.first, memory.tokens, memory.segment, memory.rate, memory.slots,
           memory.first_slot},
          {dropped.rate, scale}};
}

BlockRule unpacked(const OptionalTensors& tensors, at::IntArrayRef numbers,
                   at::ArrayRef<double> factors) {
  TORCH_CHECK(tensors.size() == 8 && numbers.size() == 15 && factors.size() == 2,
              "block_softmax: a rule of ", tensors.size(), " tensors, ", numbers.size(),
              " numbers and ", factors.size(), " factors, but needs 8, 15 and 2");
  const auto at = [&](size_t i) {
    const std::optional<Tensor> tensor = tensors[i];
    return tensor.value_or(Tensor());
  };
  return {.pairs = {numbers[0], numbers[1], at(0), numbers[8]},
          .visibility = {.back = numbers[2],
                         .ahead = numbers[3],
                         .first = numbers[9],
                         .apart = numbers[4],
                         .keep = at(1),
                         .query_positions = at(2),
                         .key_positions = at(3),
                         .query_groups = at(4),
                         .key_groups = at(5),
                         .key_bias = at(6),
                         .memory = {.tokens = numbers[10],
                                    .segment = numbers[11],
                                    .rate = numbers[12],
                                    .slots = numbers[13],
                                    .first_slot = numbers[14]}},
          .dropped = {at(7), static_cast<uint64_t>(numbers[5]), factors[0]},
          .distances = {numbers[6], numbers[7]},
          .scale = factors[1]};
}

}  // namespace longbow
