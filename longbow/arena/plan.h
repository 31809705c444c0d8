#pragma once
// What an arena will run: every mechanism on every task with every seed.
#include "longbow/train/run/run_config.h"

namespace longbow::arena {

struct ArenaConfig {
  std::string name = "arena";
  Node common = Node::map(), tasks = Node::map();
  std::vector<Node> mechanisms;
  std::vector<int64_t> seeds = {1};
  std::string match_parameters = "";
  std::vector<Node> published;
};
template <class V>
void fields(V& v, ArenaConfig& c) {
  v("name", c.name, "of the arena: its report's title and, without --out, its folder in runs/");
  v("common", c.common, "a run config that all tasks start from");
  v("tasks", c.tasks,
    "a run config, over `common`, for each name; `task` in it defaults to the name, and the file "
    "that its `base` names comes before `common`");
  v("mechanisms", c.mechanisms,
    "each a name, or a map as model.attention takes it with a `label` of its own");
  v("seeds", c.seeds, "every cell runs once with each of them", range(0, 9007199254740992.0));
  v("match_parameters", c.match_parameters,
    "label of a mechanism: all others get as many parameters, within 10 %, by the width of their "
    "feed-forward layers");
  v("published", c.published,
    "scores of others to compare with, in rows of their own; each {task, metric, label, cite, "
    "scores: {mechanism: score}}");
}

// Scores that others have published for one of the tasks.
struct PublishedScores {
  std::string task, metric, label = "published", cite;
  Node scores = Node::map();  // by mechanism
};
template <class V>
void fields(V& v, PublishedScores& c) {
  v("task", c.task, "one of the arena's tasks");
  v("metric", c.metric, "that of the scores; another one than that of the cells is not shown");
  v("label", c.label, "added after the name of each mechanism");
  v("cite", c.cite, "where they were published");
  v("scores", c.scores, "a number for each mechanism, fractions of 1 where the metric is one");
}

struct PublishedRow {
  std::string mechanism, task, metric, cite;
  double score = 0;
  Place place = {};
};
// UserError at its place for a task that the arena does not have, for what is missing and for what
// is there twice.
std::vector<PublishedRow> published_rows(const ArenaConfig& arena);

// Of an entry of `mechanisms`: its label, or else the mechanism's name, and what is left without
// it.
std::string label_of(const Node& mechanism);
Node attention_of(const Node& mechanism);

struct ArenaCell {
  std::string task, label;
  int64_t seed = 1;
  std::string folder = {};  // relative to the arena's
  std::vector<std::string> sites = {};
  RunConfig config = {};
  std::string refusal = {};  // why the mechanism cannot do the task, or empty
};

// UserError at its place for a label that an earlier mechanism has too.
void check_labels(const std::vector<std::string>& labels, const std::vector<Place>& places);

// An arena without --out fills runs/NAME: a name that leaves that folder is refused.
void check_folder_name(const std::string& name, const Place& place);

// A part of an arena: empty lists stand for all, 0 seeds for those of the config.
struct ArenaChoice {
  std::vector<std::string> mechanisms = {}, tasks = {};
  int64_t seeds = 0;
  double seconds = 0;  // for all cells together, `jobs` at a time; 0 = as their configs say
  int64_t jobs = 1;
};

// All cells, checked before the first one runs.
std::vector<ArenaCell> plan(const ArenaConfig& arena, const ArenaChoice& choice);

}  // namespace longbow::arena
