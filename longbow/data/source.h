#pragma once
// The data sets that a config or the program can name.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/data/baseline.h"
#include "longbow/data/count.h"
#include "longbow/data/dataset.h"
#include "longbow/data/listops.h"
#include "longbow/data/markov.h"
#include "longbow/data/match.h"
#include "longbow/data/needle.h"
#include "longbow/data/recall.h"
#include "longbow/data/reverse.h"

namespace longbow {

struct DataConfig {
  std::string name = "listops";
  std::string path = {};
  uint64_t seed = 1;
  int64_t max_tokens = 0;
  ListOpsConfig listops = {};
  RecallConfig recall = {};
  MatchConfig match = {};
  CountConfig count = {};
  NeedleConfig needle = {};
  MarkovConfig markov = {};
  ReverseConfig reverse = {};
};
template <class V>
void fields(V& v, DataConfig& c) {
  v("name", c.name, "the data set; leave it out of a run config, where it is the task");
  v("path", c.path,
    "folder with its files, from `longbow data make`; relative to the config; empty: generate in "
    "memory");
  v("seed", c.seed, "of the generator, when the data is generated in memory", at_least(0));
  v("max_tokens", c.max_tokens,
    "listops, markov: longer samples are cut on the right; 0 = never; the others refuse to be cut",
    at_least(0));
  v("listops", c.listops, "generator options of listops");
  v("recall", c.recall, "generator options of recall");
  v("match", c.match, "generator options of match");
  v("count", c.count, "generator options of count");
  v("needle", c.needle, "generator options of needle");
  v("markov", c.markov, "generator options of markov");
  v("reverse", c.reverse, "generator options of reverse");
}

// What `longbow init` prints to start from: how a run config differs from what all have in common,
// and what comes of it.
struct Recipe {
  std::string config = {};   // YAML
  std::string reaches = {};  // a score, and what to compare it with
};

struct DataSource {
  std::string name, description;
  std::string objective;  // what its samples are made for
  std::vector<std::string> files;
  std::vector<FieldDoc> options;
  std::function<Splits(const DataConfig&)> load;
  // Writes the files and manifest.json.
  std::function<void(const std::string& dir, const Node& options, uint64_t seed)> make;
  Recipe recipe;
  // Bounds that are known of this data alone; null: none.
  std::function<std::vector<Baseline>(const DataConfig&, const Splits&)> baselines = {};
};
const std::vector<DataSource>& data_sources();
// UserError with the nearest names when there is none.
const DataSource& find_data_source(const std::string& name, const Place& place = {},
                                   const char* called = "data set");

Splits load_data(const DataConfig& config);
// Writes the files and manifest.json; `options` are those of the data set, read strictly.
void make_data(const std::string& name, const std::string& dir, const Node& options, uint64_t seed);

}  // namespace longbow
