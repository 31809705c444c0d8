#include "longbow/data/sets/recall.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>

#include "longbow/core/seed.h"
#include "longbow/core/work.h"
#include "longbow/data/readers/manifest.h"
#include "longbow/data/readers/source.h"
#include "longbow/data/readers/tsv.h"

namespace longbow {
namespace {

const SplitFiles kFiles{"recall_train.tsv", "recall_val.tsv", "recall_test.tsv"};
constexpr int64_t kMostSymbols = 65536;

void check(const RecallConfig& config) {
  require_option(config.pairs <= config.keys, "pairs",
                 fmt::format("is {}, but there are {} keys, and each is shown at most once",
                             config.pairs, config.keys),
                 "raise keys or lower pairs");
  require_option(config.pairs_min <= config.pairs, "pairs_min",
                 fmt::format("is {}, above pairs, {}", config.pairs_min, config.pairs),
                 "lower it, or raise pairs");
  auto vocabulary = RecallIds(config).vocabulary();
  require_option(vocabulary <= kMostSymbols, "keys",
                 fmt::format("is {} and values is {}: {} symbols, but at most {} fit", config.keys,
                             config.values, vocabulary, kMostSymbols),
                 "lower keys or values");
}

Sample draw(const RecallConfig& config, const RecallIds& ids, Stream stream) {
  auto fewest = config.pairs_min > 0 ? config.pairs_min : config.pairs;
  auto pairs = fewest + stream.below(config.pairs - fewest + 1);
  auto keys = stream.permutation(config.keys);
  Sample sample;
  auto push = [&](int64_t id, int64_t target) {
    sample.tokens.push_back(static_cast<int32_t>(id));
    sample.targets.push_back(static_cast<int32_t>(target));
  };
  std::vector<int64_t> values;
  for (int64_t i = 0; i < pairs; ++i) {
    auto key = keys[static_cast<size_t>(i)], value = stream.below(config.values);
    values.push_back(value);
    if (config.joint) {
      push(ids.pair(key, value), kIgnore);
      continue;
    }
    push(ids.key(key), kIgnore);
    push(ids.value(value), kIgnore);
  }
  push(ids.separator(), kIgnore);
  for (int64_t i = 0; i < config.queries; ++i) {
    auto shown = static_cast<size_t>(stream.below(pairs));
    push(ids.key(keys[shown]), values[shown]);
  }
  return sample;
}

std::shared_ptr<const MemoryDataset> make_split(const RecallConfig& config, int64_t count,
                                                Stream stream) {
  const RecallIds ids(config);
  auto dataset = std::make_shared<MemoryDataset>(MemoryDataset::Targets::per_token);
  Work work("making recall", count);
  for (int64_t i = 0; i < count; ++i) {
    work.reached(i);
    auto sample = draw(config, ids, stream.at(static_cast<uint64_t>(i)));
    dataset->add(sample.tokens, sample.targets);
  }
  return dataset;
}

Splits describe_splits(const RecallConfig& config) {
  const RecallIds ids(config);
  std::vector<std::string> labels;
  for (int64_t v = 0; v < config.values; ++v) labels.push_back(fmt::format("v{}", v));
  return {.vocabulary = ids.vocabulary(),
          .classes = config.values,
          .symbols = ids.symbols(),
          .labels = labels};
}

std::string table_of(const Dataset& dataset) {
  std::string text = "Source\tTarget\n";
  for (int64_t i = 0; i < dataset.size(); ++i) {
    auto sample = dataset.get(i);
    std::erase(sample.targets, kIgnore);
    text += fmt::format("{}\t{}\n", fmt::join(sample.tokens, " "), fmt::join(sample.targets, " "));
  }
  return text;
}

std::shared_ptr<const MemoryDataset> parse_split(const std::string& contents,
                                                 const std::string& path, const RecallIds& ids) {
  auto dataset = std::make_shared<MemoryDataset>(MemoryDataset::Targets::per_token);
  for (const auto& row : parse_table(contents, path)) {
    const Place place{path, row.line};
    auto tokens = parse_ids(row.source, place);
    auto targets = recall_targets(tokens, ids, place);
    auto answers = targets;
    std::erase(answers, kIgnore);
    if (parse_ids(row.target, place) != answers)
      throw UserError(place,
                      fmt::format("answers {} but the pairs shown say '{}'", excerpt(row.target),
                                  fmt::join(answers, " ")),
                      "the file was changed or cut");
    dataset->add(tokens, targets);
  }
  return dataset;
}

// Reads one sample from left to right.
class Recaller {
 public:
  Recaller(std::span<const int32_t> tokens, const RecallIds& ids, const Place& place)
      : tokens_(tokens), ids_(ids), place_(place) {}

  std::vector<int32_t> targets() {
    std::vector<int32_t> targets;
    while (at_ < tokens_.size() && tokens_[at_] != ids_.separator()) show();
    if (at_ == tokens_.size()) fail("no separator");
    targets.assign(++at_, kIgnore);
    if (at_ == tokens_.size()) fail("no queries");
    for (; at_ < tokens_.size(); ++at_) {
      auto found = shown_.find(tokens_[at_] - ids_.key(0));
      if (found == shown_.end()) fail("asks for a key that was not shown");
      targets.push_back(static_cast<int32_t>(found->second));
    }
    return targets;
  }

 private:
  void show() {
    auto [key, value] = ids_.joint ? joint_pair() : split_pair();
    if (!shown_.emplace(key, value).second) fail("shows a key twice");
    ++at_;
  }
  std::pair<int64_t, int64_t> joint_pair() const {
    auto pair = tokens_[at_] - ids_.pair(0, 0);
    if (pair < 0 || pair >= ids_.keys * ids_.values) fail("is not a pair");
    return {pair / ids_.values, pair % ids_.values};
  }
  std::pair<int64_t, int64_t> split_pair() {
    auto key = tokens_[at_] - ids_.key(0);
    if (key < 0 || key >= ids_.keys) fail("is not a key");
    if (++at_ == tokens_.size()) fail("ends after a key");
    auto value = tokens_[at_] - ids_.value(0);
    if (value < 0 || value >= ids_.values) fail("is not a value");
    return {key, value};
  }
  [[noreturn]] void fail(const char* what) const {
    auto where = at_ < tokens_.size() ? fmt::format("token {} (id {})", at_ + 1, tokens_[at_])
                                      : fmt::format("sample of {} tokens:", tokens_.size());
    throw UserError(place_, fmt::format("{} {}", where, what));
  }

  std::span<const int32_t> tokens_;
  const RecallIds& ids_;
  const Place& place_;
  size_t at_ = 0;
  std::unordered_map<int64_t, int64_t> shown_;
};

}  // namespace

RecallIds::RecallIds(const RecallConfig& config)
    : keys(config.keys), values(config.values), joint(config.joint) {}

std::vector<std::string> RecallIds::symbols() const {
  std::vector<std::string> names = {"<pad>"};
  for (int64_t k = 0; k < keys; ++k) names.push_back(fmt::format("k{}", k));
  for (int64_t k = 0; k < (joint ? keys : 1); ++k)
    for (int64_t v = 0; v < values; ++v)
      names.push_back(joint ? fmt::format("k{}=v{}", k, v) : fmt::format("v{}", v));
  names.emplace_back("?");
  return names;
}

std::vector<int32_t> recall_targets(std::span<const int32_t> tokens, const RecallIds& ids,
                                    const Place& place) {
  return Recaller(tokens, ids, place).targets();
}

Splits make_recall(const RecallConfig& config, uint64_t seed) {
  check(config);
  auto splits = describe_splits(config);
  set_splits(splits, make_split(config, config.train, {seed, "recall/train"}),
             make_split(config, config.valid, {seed, "recall/valid"}),
             make_split(config, config.test, {seed, "recall/test"}));
  return splits;
}

void write_recall(const std::string& dir, const RecallConfig& config, uint64_t seed) {
  write_splits(
      {.dir = dir,
       .files = kFiles,
       .splits = make_recall(config, seed),
       .table = table_of,
       .manifest = {
           .name = "recall", .seed = seed, .version = kRecallVersion, .config = written(config)}});
}

Splits load_recall(const std::string& dir) {
  auto manifest =
      needed_manifest(dir, kFiles, "it says what the ids in recall_{train,val,test}.tsv mean");
  auto config = read_options<RecallConfig>(manifest.config, "config", check);
  auto splits = describe_splits(config);
  auto parse = [ids = RecallIds(config)](const std::string& contents, const std::string& path) {
    return parse_split(contents, path, ids);
  };
  read_splits({.dir = dir, .files = kFiles, .parse = parse, .manifest = manifest}, splits);
  return splits;
}

DataSource recall_data_set() {
  return data_source<RecallConfig>(
      {.name = "recall",
       .description = "key-value recall: answer each key with the value it was shown with",
       .objective = "classification",
       .files = {kFiles.train, kFiles.valid, kFiles.test},
       .recipe = {"{task: recall, data: {recall: {train: 20000, valid: 500, test: 1000, keys: 40, "
                  "values: 8, pairs: 26, queries: 16, joint: true}}, train: {learning_rate: 3e-3}}",
                  "98 % accuracy; the most frequent class has 12 %"}},
      [](const DataConfig& config, const RecallConfig& options) {
        auto splits =
            config.path.empty() ? make_recall(options, config.seed) : load_recall(config.path);
        refuse_cut(config, splits.max_length,
                   "their queries are at the end; lower pairs or queries instead");
        return splits;
      },
      write_recall, check);
}

}  // namespace longbow
