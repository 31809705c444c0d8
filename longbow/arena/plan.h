#pragma once
// What an arena will run: every mechanism on every task with every seed.
#include "longbow/train/run/run_config.h"

namespace longbow::arena {

struct ArenaConfig {
  std::string name = "arena";
  Node common = Node::map(), tasks = Node::map();
  std::vector<Node> mechanisms;
  std::vector<int64_t> seeds = {1};
};
template <class V>
void fields(V& v, ArenaConfig& c) {
  v("name", c.name, "of the arena: its report's title and, without --out, its folder in runs/");
  v("common", c.common, "a run config that all tasks start from");
  v("tasks", c.tasks,
    "a run config, over `common`, for each name; `task` in it defaults to the name");
  v("mechanisms", c.mechanisms,
    "each a name, or a map as model.attention takes it with a `label` of its own");
  v("seeds", c.seeds, "every cell runs once with each of them");
}

struct ArenaCell {
  std::string task, label;
  int64_t seed = 1;
  std::string folder = {};  // relative to the arena's
  std::vector<std::string> sites = {};
  RunConfig config = {};
  std::string refusal = {};  // why the mechanism cannot do the task, or empty
};

// An arena without --out fills runs/NAME: a name that leaves that folder is refused.
void check_folder_name(const std::string& name, const Place& place);

// A part of an arena: empty lists stand for all, 0 seeds for those of the config.
struct ArenaChoice {
  std::vector<std::string> mechanisms = {}, tasks = {};
  int64_t seeds = 0;
};

// All cells, checked before the first one runs.
std::vector<ArenaCell> plan(const ArenaConfig& arena, const ArenaChoice& choice);

}  // namespace longbow::arena
