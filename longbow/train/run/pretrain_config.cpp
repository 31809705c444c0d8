#include "longbow/train/run/pretrain_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "longbow/tasks/task.h"
#include "longbow/train/run/encoder_part.h"

namespace longbow {

Node pretraining_model(const PretrainConfig& config, const Node& model) {
  auto first = merged(encoder_part(model), config.model);
  if (find_objective(config.objective).causal) first["causal"] = Node::boolean(true);
  return first;
}

void check_pretraining(const PretrainConfig& config, const Node& model, const Node& tree) {
  const auto& name = config.objective;
  if (name.empty()) return;
  std::vector<std::string> pretrain;
  for (const auto& row : objectives())
    if (row.pretrains) pretrain.push_back(row.name);
  if (std::find(pretrain.begin(), pretrain.end(), name) == pretrain.end())
    throw UserError(tree.place_of("pretrain.objective"),
                    fmt::format("'{}' does not pretrain", name), suggest(name, pretrain));
  find_objective(name).check(pretraining_model(config, model));
}

}  // namespace longbow
