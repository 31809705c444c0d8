#include "longbow/cli/starter.h"

#include <algorithm>
#include <string>
#include <vector>

#include "longbow/data/readers/source.h"
#include "longbow/tasks/task.h"

namespace longbow::cli {
namespace {

const char* const kCommon = R"(
model: {width: 64, heads: 8, layers: 2, positions: learned, init: xavier, block: {feed_forward: 128},
        attention: linear}
train: {max_steps: 600, batch_size: 32, learning_rate: 1e-3, warmup_steps: 50, decay: cosine,
        weight_decay: 0.01, bucket: 16, evaluate_every: 100}
)";

// The keys of a run in the order that a reader wants them.
Node in_order(const Node& config) {
  Node result = Node::map();
  for (const auto* key : {"task", "objective", "data", "model", "train"})
    if (const auto* found = config.find(key)) result[key] = *found;
  return result;
}

std::vector<Starter> made_starters() {
  const auto common = parse_yaml(kCommon, Place{"starter", 0});
  std::vector<Starter> all;
  const auto add = [&](const std::string& name, const Recipe& recipe) {
    if (recipe.config.empty()) return;
    const auto own = parse_yaml(recipe.config, Place{"starter", 0});
    all.push_back({name, in_order(merged(common, own)), recipe.reaches});
  };
  for (const auto& source : data_sources()) add(source.name, source.recipe);
  for (const auto& objective : objectives()) add(objective.name, objective.recipe);
  return all;
}

}  // namespace

const std::vector<Starter>& starters() {
  static const auto all = made_starters();
  return all;
}

const Starter& find_starter(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& starter : starters()) {
    if (starter.name == name) return starter;
    known.push_back(starter.name);
  }
  for (const auto& source : data_sources()) {
    if (source.objective == name && source.make) return find_starter(source.name);
    if (std::find(known.begin(), known.end(), source.objective) == known.end())
      known.push_back(source.objective);
  }
  throw UserError("unknown name " + quote(name), suggest(name, known));
}

}  // namespace longbow::cli
