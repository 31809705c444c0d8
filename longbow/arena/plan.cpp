#include "longbow/arena/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <tuple>

#include "longbow/arena/placement.h"
#include "longbow/attention/mechanism.h"
#include "longbow/core/folder.h"

namespace longbow::arena {

std::string label_of(const Node& mechanism) {
  if (const auto* label = mechanism.find("label")) return as_string(*label, "label");
  return mechanism_of(mechanism).name;
}

Node attention_of(const Node& mechanism) {
  Node options = mechanism;
  std::erase_if(options.entries, [](const auto& entry) { return entry.first == "label"; });
  return options;
}

namespace {

void check_chosen(const std::vector<std::string>& chosen, const std::vector<std::string>& known,
                  const char* flag) {
  for (const auto& name : chosen)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UserError(Place{flag, 0}, "'" + name + "' is not in the arena", suggest(name, known));
}

bool wanted(const std::vector<std::string>& chosen, const std::string& name) {
  return chosen.empty() || std::find(chosen.begin(), chosen.end(), name) != chosen.end();
}

// What can be a row or a column of a table, and a folder.
void check_name(const std::string& what, const std::string& name, const Place& place) {
  constexpr size_t kLongest = 200;
  if (name.empty() || name == "." || name == "..")
    throw UserError(place, fmt::format("{} '{}' names nothing", what, name), "write a word");
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return std::iscntrl(c); }))
    throw UserError(place, fmt::format("{} {} has a control character", what, quote(name)),
                    "write plain text");
  if (file_name(name).size() > kLongest)
    throw UserError(place, fmt::format("{} {} is too long", what, quote(name)),
                    "its folder's name would have more than 200 bytes");
}

// An empty map where nothing is written.
Node map_of(const Node& node, const std::string& what) {
  if (node.is_map()) return node;
  if (!node.is_null()) detail::fail_not_a_map(node, what);
  auto empty = Node::map();
  empty.place = node.place;
  return empty;
}

// The run config of a task, without a mechanism.
Node tree_of(const std::string& task, const Node& given, const Node& common) {
  const auto own = map_of(given, "tasks." + task);
  auto tree = merged(merged(load_base(own), common), without_base(own));
  if (!tree.find("task")) {
    tree["task"] = Node::string(task);
    tree["task"].place = own.place;
  }
  return tree;
}

// Every cell has a folder of its own, inside the arena's.
void check_names(const ArenaConfig& arena, const std::vector<std::string>& labels) {
  for (const auto& [task, own] : arena.tasks.entries) check_name("task", task, own.place);
  std::vector<Place> places;
  for (size_t i = 0; i < labels.size(); ++i) {
    places.push_back(arena.mechanisms[i].place);
    check_name("label", labels[i], places.back());
  }
  check_labels(labels, places);
  for (auto seed = arena.seeds.begin(); seed != arena.seeds.end(); ++seed)
    if (std::find(arena.seeds.begin(), seed, *seed) != seed)
      throw UserError(Place{arena.tasks.place.file, 0}, fmt::format("seeds has {} twice", *seed),
                      "name each seed once");
}

std::string objective_of(const Node& tree) {
  if (const auto* objective = tree.find("objective"); objective && !objective->text.empty())
    return objective->text;
  const auto& task = *tree.find("task");
  const auto& source = find_data_source(as_string(task, "task"), task.place, "task");
  const auto* data = tree.find("data");
  const auto* options = data ? data->find(source.name) : nullptr;
  return longbow::objective_of(source, options ? *options : Node::map());
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

// An equal share of the time for every cell that runs. A part of it goes to reading the data and to
// evaluations, which max_seconds does not count, and a part of the training to pretraining.
void share_time(std::vector<ArenaCell>& cells, const ArenaChoice& choice) {
  constexpr double kTrained = 0.8, kPretrained = 0.4;
  const auto running =
      std::ranges::count_if(cells, [](const auto& cell) { return cell.refusal.empty(); });
  if (choice.seconds <= 0 || running == 0) return;
  const double share =
      kTrained * choice.seconds * static_cast<double>(choice.jobs) / static_cast<double>(running);
  for (auto& cell : cells) {
    const bool pretrains = !cell.config.pretrain.objective.empty();
    // A task's own limit holds where it is lower.
    const auto limited = [](double own, double limit) {
      return own > 0 ? std::min(own, limit) : limit;
    };
    auto& most = cell.config.train.max_seconds;
    auto& before = cell.config.pretrain.max_seconds;
    if (pretrains) before = limited(before.value_or(most), share * kPretrained);
    most = limited(most, pretrains ? share * (1 - kPretrained) : share);
  }
}

}  // namespace

void check_labels(const std::vector<std::string>& labels, const std::vector<Place>& places) {
  for (auto label = labels.begin(); label != labels.end(); ++label)
    if (std::find(labels.begin(), label, *label) != label)
      throw UserError(places.at(static_cast<size_t>(label - labels.begin())),
                      fmt::format("two mechanisms are called {}", quote(*label)),
                      "give one a label of its own, as in {name: softmax, label: other}");
}

void check_folder_name(const std::string& name, const Place& place) {
  check_name("name", name, place);
  if (name.find('/') != std::string::npos)
    throw UserError(place, fmt::format("name {} is not a folder in runs/", quote(name)),
                    "leave out '/', or give a folder with --out");
}

std::vector<PublishedRow> published_rows(const ArenaConfig& arena) {
  std::vector<PublishedRow> rows;
  std::set<std::tuple<std::string, std::string, std::string>> seen;  // what no two may share
  for (const auto& entry : arena.published) {
    const auto scores = read<PublishedScores>(entry, "published");
    for (const auto& [key, value] : {std::pair("task", &scores.task),
                                     {"metric", &scores.metric},
                                     {"label", &scores.label},
                                     {"cite", &scores.cite}})
      if (value->empty())
        throw UserError(entry.place, fmt::format("published.{} is missing", key),
                        "each entry has task, metric, cite and scores");
    const auto tasks = arena.tasks.keys();
    if (std::ranges::find(tasks, scores.task) == tasks.end())
      throw UserError(entry.find("task")->place,
                      fmt::format("published.task '{}' is not in the arena", scores.task),
                      suggest(scores.task, tasks));
    if (!scores.scores.is_map()) detail::fail_not_a_map(scores.scores, "published.scores");
    for (const auto& [mechanism, score] : scores.scores.entries) {
      const PublishedRow row = {.mechanism = fmt::format("{}, {}", mechanism, scores.label),
                                .task = scores.task,
                                .metric = scores.metric,
                                .cite = scores.cite,
                                .score = as_number(score, "published.scores." + mechanism),
                                .place = score.place};
      if (!seen.emplace(row.mechanism, row.task, row.metric).second)
        throw UserError(row.place,
                        fmt::format("{} of {} on {} is published twice", row.metric,
                                    quote(row.mechanism), row.task),
                        "give one entry a label of its own");
      rows.push_back(row);
    }
  }
  return rows;
}

std::vector<ArenaCell> plan(const ArenaConfig& arena, const ArenaChoice& choice) {
  const auto common = map_of(arena.common, "common"), tasks = map_of(arena.tasks, "tasks");
  std::vector<std::string> labels;
  for (const auto& mechanism : arena.mechanisms) labels.push_back(label_of(mechanism));
  check_names(arena, labels);
  (void)published_rows(arena);  // refused before the first cell runs, not after the last
  check_chosen(choice.mechanisms, labels, "--mechanisms");
  check_chosen(choice.tasks, tasks.keys(), "--tasks");
  if (!arena.match_parameters.empty())
    check_chosen({arena.match_parameters}, labels, "match_parameters");
  std::vector<int64_t> seeds = arena.seeds;
  if (choice.seeds > 0) {
    seeds.clear();
    for (int64_t seed = 1; seed <= choice.seeds; ++seed) seeds.push_back(seed);
  }
  std::vector<ArenaCell> cells;
  for (const auto& [task, own] : tasks.entries) {
    auto tree = tree_of(task, own, common);
    for (size_t m = 0; m < labels.size(); ++m)
      for (const auto seed : seeds) {
        if (!wanted(choice.tasks, task) || !wanted(choice.mechanisms, labels[m])) continue;
        tree["seed"] = Node::integer(seed);
        cells.push_back({.task = task, .label = labels[m], .seed = seed});
        cells.back().folder =
            fmt::format("cells/{}/{}/seed-{}", file_name(task), file_name(labels[m]), seed);
        configure(cells.back(), tree, attention_of(arena.mechanisms[m]));
      }
  }
  share_time(cells, choice);
  return cells;
}

}  // namespace longbow::arena
