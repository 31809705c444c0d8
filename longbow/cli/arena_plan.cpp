#include "longbow/cli/arena_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "longbow/attention/mechanism.h"
#include "longbow/cli/placement.h"

namespace longbow::cli {
namespace {

std::string label_of(const Node& mechanism) {
  if (const auto* label = mechanism.find("label")) return as_string(*label, "label");
  return mechanism_of(mechanism).name;
}

Node attention_of(const Node& mechanism) {
  Node options = mechanism;
  std::erase_if(options.entries, [](const auto& entry) { return entry.first == "label"; });
  return options;
}

void check_chosen(const std::vector<std::string>& chosen, const std::vector<std::string>& known,
                  const char* flag) {
  for (const auto& name : chosen)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UserError(Place{flag, 0}, "'" + name + "' is not in the arena", suggest(name, known));
}

bool wanted(const std::vector<std::string>& chosen, const std::string& name) {
  return chosen.empty() || std::find(chosen.begin(), chosen.end(), name) != chosen.end();
}

std::string file_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c) && c != '.'; }, '_');
  return text;
}

std::string objective_of(const Node& tree) {
  if (const auto* objective = tree.find("objective"); objective && !objective->text.empty())
    return objective->text;
  const auto& task = *tree.find("task");
  return find_data_source(as_string(task, "task"), task.place, "task").objective;
}

Node model_of(const Node& tree) {
  const auto* model = tree.find("model");
  return model && model->is_map() ? *model : Node::map();
}

RunConfig config_with(Node tree, const Node& attention, std::vector<std::string>& sites) {
  auto placement = placed(attention, model_of(tree), objective_of(tree));
  tree["model"] = std::move(placement.model);
  sites = std::move(placement.sites);
  return read_run_config(tree);
}

// "fnet is not causal" of "arena.yaml:10: fnet is not causal; mechanisms that are: …".
std::string bare(const std::string& error, const Place& place) {
  const auto start = place.str() + ": ";
  const auto text = error.starts_with(start) ? error.substr(start.size()) : error;
  return text.substr(0, text.find("; "));
}

// A mechanism that lacks what a task needs, or does not fit its model, has a cell that says so.
// Everything else that is wrong is wrong with softmax too, or with the options of the mechanism,
// and is the user's to mend.
void configure(ArenaCell& cell, const Node& tree, const Node& attention) {
  try {
    cell.config = config_with(tree, attention, cell.sites);
  } catch (const UserError& error) {
    const auto* option = dynamic_cast<const OptionError*>(&error);
    if (option && !option->key().empty()) throw;
    check_readable(attention, model_of(tree), objective_of(tree));
    std::vector<std::string> unused;
    config_with(tree, Node::string("softmax"), unused);
    cell.refusal = bare(error.what(), attention.place);
  }
}

}  // namespace

std::vector<ArenaCell> plan(const ArenaConfig& arena, const ArenaCommand& command) {
  std::vector<std::string> labels;
  for (const auto& mechanism : arena.mechanisms) labels.push_back(label_of(mechanism));
  check_chosen(command.mechanisms, labels, "--mechanisms");
  check_chosen(command.tasks, arena.tasks.keys(), "--tasks");
  std::vector<int64_t> seeds = arena.seeds;
  if (command.seeds > 0) {
    seeds.clear();
    for (int64_t seed = 1; seed <= command.seeds; ++seed) seeds.push_back(seed);
  }
  std::vector<ArenaCell> cells;
  for (const auto& [task, own] : arena.tasks.entries)
    for (size_t m = 0; m < labels.size(); ++m)
      for (const auto seed : seeds) {
        if (!wanted(command.tasks, task) || !wanted(command.mechanisms, labels[m])) continue;
        auto tree = merged(arena.common, own);
        if (!tree.find("task")) {
          tree["task"] = Node::string(task);
          tree["task"].place = own.place;
        }
        tree["seed"] = Node::integer(seed);
        cells.push_back({.task = task, .label = labels[m], .seed = seed});
        cells.back().folder =
            fmt::format("cells/{}/{}/seed-{}", file_name(task), file_name(labels[m]), seed);
        configure(cells.back(), tree, attention_of(arena.mechanisms[m]));
      }
  return cells;
}

}  // namespace longbow::cli
