#pragma once
// The table of data sets that a config or the program can name. One source file in sets/ is one
// row; CMake collects them.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/core/option_error.h"
#include "longbow/data/readers/tokenizer_config.h"
#include "longbow/data/samples/baseline.h"
#include "longbow/data/samples/dataset.h"

namespace longbow {

struct DataConfig {
  std::string name = {};
  std::string path = {};
  uint64_t seed = 1;
  int64_t max_tokens = 0;
  TokenizerConfig tokenizer = {};
  std::string cache = {};
  Node options = Node::map();  // of the data set, as its row reads them
  Node places = {};            // all this as it was read: where mistakes are that the data shows
};
template <class V>
void fields(V& v, DataConfig& c) {
  v("name", c.name, "the data set; leave it out of a run config, where it is the task");
  v("path", c.path,
    "folder with its files (`longbow data list NAME` says which); relative to the config; empty: "
    "generate in memory");
  v("seed", c.seed, "of data that is generated in memory, and of splits that have no file",
    at_least(0));
  v("max_tokens", c.max_tokens,
    "longer samples are cut on the right; refused where a cut would change their answers, and for "
    "running text, which has `length`; 0 = never",
    at_least(0));
  v("tokenizer", c.tokenizer, "how texts become tokens, where samples are texts");
  v("cache", c.cache,
    "folder for encoded texts and for pictures; empty: $LONGBOW_CACHE, else longbow in "
    "$XDG_CACHE_HOME or ~/.cache");
  v(c.name.empty() ? "NAME" : c.name.c_str(), c.options,
    "options of the data set NAME: `longbow describe NAME`, docs/data/");
}

// What `longbow init` prints to start from: how a run config differs from what all have in common,
// and what comes of it.
struct Recipe {
  std::string config = {};   // YAML
  std::string reaches = {};  // a score, and what to compare it with
};

// Where a published data set comes from. Nothing is ever downloaded: a person puts the files into
// data.path.
struct Origin {
  std::string licence = {}, published = {};  // who publishes it, and where
  std::vector<std::string> files = {};  // "name: what it is"; packed ones may end in .xz or .gz
};

struct DataSource {
  std::string name, description;
  std::string objective;  // what its samples are made for
  // What `longbow init NAME FILE` says of the file: the `data` part of a config. Null: it reads no
  // file of one's own.
  std::function<Node(const std::string& file)> data_for = {};
  // The objective where it depends on the options; null: it does not.
  std::function<std::string(const Node& options)> objective_for = {};
  std::vector<std::string> files = {};  // in its folder; empty where the options name them
  Recipe recipe = {};
  Origin origin = {};  // empty for data of one's own, and for generated data that nobody publishes
  // Whether targets follow from their samples, so that reading recomputes them.
  bool recomputes = true;
  // YAML: keys of `data` that this set has another default for, such as its tokenizer.
  std::string defaults = {};
  // Bounds that are known of this data alone; null: none.
  std::function<std::vector<Baseline>(const DataConfig&, const Splits&)> baselines = {};

  // What follows is filled in by data_source(). All take the options as a tree and read them
  // strictly.
  std::vector<FieldDoc> options = {};
  std::function<Node(const Node& options)> resolve = {};  // every option spelled out
  std::function<Splits(const DataConfig&)> load = {};
  // Writes the files and manifest.json; null for data that exists already.
  std::function<void(const std::string& dir, const Node& options, uint64_t seed)> make = {};
};
const std::vector<DataSource>& data_sources();
// UserError with the nearest names when there is none.
const DataSource& find_data_source(const std::string& name, const Place& place = {},
                                   const char* called = "data set");
// What samples with these options, as they are written in a config, are made for.
std::string objective_of(const DataSource& source, const Node& options);

// What no single field of a data set's options can tell: throws an OptionError. Null where all
// combinations are a data set.
template <class Config>
using CheckOptions = std::function<void(const Config&)>;

// Reads options strictly and checks them; messages name file and line, and `owner`.
template <class Config>
Config read_options(const Node& options, const std::string& owner,
                    const CheckOptions<Config>& check) {
  const auto config = read<Config>(options, owner);
  if (check) check_options(options, owner, [&] { check(config); });
  return config;
}

// The row with what follows from the fields of its options. `make` is null for data that exists
// already.
template <class Config>
DataSource data_source(
    DataSource row, std::function<Splits(const DataConfig&, const Config& options)> load,
    std::function<void(const std::string& dir, const Config& options, uint64_t seed)> make,
    CheckOptions<Config> check = nullptr) {
  const auto owner = "data." + row.name;
  row.options = describe<Config>();
  row.resolve = [=](const Node& options) {
    return written(read_options<Config>(options, owner, check));
  };
  row.load = [=](const DataConfig& config) {
    return load(config, read_options<Config>(config.options, owner, check));
  };
  if (make)
    row.make = [=, name = row.name](const std::string& dir, const Node& options, uint64_t seed) {
      const auto config = read<Config>(options);
      if (check) check_options(options, name, [&] { check(config); });
      make(dir, config, seed);
    };
  return row;
}

Splits load_data(const DataConfig& config);
// Writes the files and manifest.json; `options` are those of the data set, read strictly.
void make_data(const std::string& name, const std::string& dir, const Node& options, uint64_t seed);

// OptionError, of `data`, when max_tokens would cut samples that must stay whole, of which the
// longest has so many tokens; `hint` says what to do.
void refuse_cut(const DataConfig& config, int64_t longest, const std::string& hint);

// Older versions wrote the options of every data set into the config.yaml of a run: drops those
// that are not of its own from such a `data` part, and leaves any other as it is.
void drop_other_sets(Node& data);

}  // namespace longbow
