#include "longbow/data/source.h"

#include <fmt/format.h>

#include <cmath>

#include "longbow/core/log.h"
#include "longbow/data/manifest.h"

namespace longbow {
namespace {

Splits load_listops_data(const DataConfig& config) {
  auto splits = config.path.empty()
                    ? truncate(make_listops(config.listops, config.seed), config.max_tokens)
                    : load_listops(config.path, config.max_tokens);
  if (splits.truncated > 0)
    info(fmt::format("listops: {} of {} samples cut to {} tokens", splits.truncated,
                     splits.train->size() + splits.valid->size() + splits.test->size(),
                     config.max_tokens));
  return splits;
}

Splits load_recall_data(const DataConfig& config) {
  auto splits =
      config.path.empty() ? make_recall(config.recall, config.seed) : load_recall(config.path);
  if (config.max_tokens > 0 && splits.max_length > config.max_tokens)
    throw UserError(fmt::format("max_tokens {} would cut recall samples of up to {} tokens",
                                config.max_tokens, splits.max_length),
                    "their queries stand at the end; lower pairs or queries instead");
  return splits;
}

// `own` are its options in a config.
template <class Config>
DataSource generated(const std::string& name, const std::string& description,
                     const std::string& objective, const Recipe& recipe, Config DataConfig::*own,
                     Generator (*generator)(const Config&)) {
  const auto [train, valid, test] = files_of(name);
  const auto from_manifest = [generator](const Node& options) {
    return generator(read<Config>(options, "config"));
  };
  const auto load = [=](const DataConfig& config) {
    auto splits = config.path.empty() ? generate(generator(config.*own), config.seed)
                                      : load_generated(config.path, name, from_manifest);
    if (config.max_tokens > 0 && splits.max_length > config.max_tokens)
      throw UserError(fmt::format("max_tokens {} would cut {} samples of up to {} tokens",
                                  config.max_tokens, name, splits.max_length),
                      "their answers would change; lower data." + name + ".length instead");
    return splits;
  };
  return {
      .name = name,
      .description = description,
      .objective = objective,
      .files = {train, valid, test},
      .options = describe<Config>(),
      .load = load,
      .make = [=](const std::string& dir, const Node& options,
                  uint64_t seed) { write_generated(generator(read<Config>(options)), dir, seed); },
      .recipe = recipe};
}

Splits load_markov_data(const DataConfig& config) {
  return truncate(
      config.path.empty() ? make_markov(config.markov, config.seed) : load_markov(config.path),
      config.max_tokens);
}

std::vector<Baseline> listops_baselines(const DataConfig&, const Splits& splits) {
  return {{"root operator only", "the most frequent class given the outermost operator", "accuracy",
           true, majority_accuracy(splits, root_operator)}};
}

std::vector<Baseline> markov_baselines(const DataConfig& config, const Splits& splits) {
  const auto manifest = config.path.empty() ? std::nullopt : find_manifest(config.path);
  const auto entropy =
      markov_entropy(manifest ? MarkovChain(read<MarkovConfig>(manifest->config), manifest->seed)
                              : MarkovChain(config.markov, config.seed));
  double nats = 0, words = 0;
  for (int64_t i = 0; i < splits.test->size(); ++i) {
    const auto predicted = static_cast<double>(splits.test->length(i) - 1);
    nats += entropy.loss(splits.test->length(i)) * predicted;
    words += predicted;
  }
  return {{"last word only", "the entropy of the chain given the last word", "perplexity", false,
           std::exp(entropy.given_one)},
          {"entropy of the chain", "given all words before: no model is better", "perplexity",
           false, std::exp(nats / std::max(words, 1.0))}};
}

Splits load_reverse_data(const DataConfig& config) {
  auto splits =
      config.path.empty() ? make_reverse(config.reverse, config.seed) : load_reverse(config.path);
  if (config.max_tokens > 0 && splits.max_length > config.max_tokens)
    throw UserError(fmt::format("max_tokens {} would cut reverse samples of up to {} tokens",
                                config.max_tokens, splits.max_length),
                    "a target begins with the end of its source; lower length instead");
  return splits;
}

}  // namespace

const std::vector<DataSource>& data_sources() {
  static const std::vector<DataSource> sources = {
      {.name = "listops",
       .description = "Long Range Arena ListOps: the value of a nested list expression, 10 classes",
       .objective = "classification",
       .files = {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"},
       .options = describe<ListOpsConfig>(),
       .load = load_listops_data,
       .make = [](const std::string& dir, const Node& options,
                  uint64_t seed) { write_listops(dir, read<ListOpsConfig>(options), seed); },
       .recipe = {"{task: listops, data: {listops: {train: 8000, valid: 500, test: 1000, "
                  "min_length: 20, max_length: 100, max_depth: 5}}}",
                  "38 % accuracy; the outermost operator alone tells 34 %"},
       .baselines = listops_baselines},
      {.name = "recall",
       .description = "key-value recall: answer each key with the value it was shown with",
       .objective = "classification",
       .files = {"recall_train.tsv", "recall_val.tsv", "recall_test.tsv"},
       .options = describe<RecallConfig>(),
       .load = load_recall_data,
       .make = [](const std::string& dir, const Node& options,
                  uint64_t seed) { write_recall(dir, read<RecallConfig>(options), seed); },
       .recipe = {"{task: recall, data: {recall: {train: 20000, valid: 500, test: 1000, keys: 40, "
                  "values: 8, pairs: 26, queries: 16, joint: true}}, train: {learning_rate: 3e-3}}",
                  "98 % accuracy; the most frequent class has 12 %"}},
      generated("match", "pairs of sequences: do both have the same hidden topic?", "pairs",
                {"{task: match, data: {match: {train: 8000, valid: 500, test: 1000}}, "
                 "model: {pairs: towers, features: [concat, product, difference]}}",
                 "100 % accuracy; guessing has 50 %"},
                &DataConfig::match, match_generator),
      generated("count", "the share of a marked token, or how alike two shares are", "regression",
                {"{task: count, data: {count: {train: 8000, valid: 500, test: 1000}}}",
                 "a Pearson correlation of 0.999; a constant has 0"},
                &DataConfig::count, count_generator),
      generated("needle", "the span of answer words that follows a marker", "span",
                {"{task: needle, data: {needle: {train: 8000, valid: 500, test: 1000}}, "
                 "model: {attention: softmax, max_span: 8}, train: {learning_rate: 2e-3}}",
                 "99 % of the spans exactly"},
                &DataConfig::needle, needle_generator),
      {.name = "markov",
       .description = "words of a random Markov chain of order two, whose entropy is known",
       .objective = "causal_lm",
       .files = {"markov_train.txt", "markov_val.txt", "markov_test.txt"},
       .options = describe<MarkovConfig>(),
       .load = load_markov_data,
       .make = [](const std::string& dir, const Node& options,
                  uint64_t seed) { write_markov(dir, read<MarkovConfig>(options), seed); },
       .recipe = {"{task: markov, data: {markov: {train: 8000, valid: 500, test: 500, words: 16, "
                  "length: 48}}, train: {learning_rate: 3e-3}}",
                  "a perplexity of 3.1 over 16 words"},
       .baselines = markov_baselines},
      {.name = "reverse",
       .description = "reversal: translate a source into its symbols from the end to the beginning",
       .objective = "translation",
       .files = {"reverse_train.tsv", "reverse_val.tsv", "reverse_test.tsv"},
       .options = describe<ReverseConfig>(),
       .load = load_reverse_data,
       .make = [](const std::string& dir, const Node& options,
                  uint64_t seed) { write_reverse(dir, read<ReverseConfig>(options), seed); },
       .recipe = {"{task: reverse, data: {reverse: {train: 8000, valid: 500, test: 500, "
                  "length: 12}}, train: {max_steps: 1000, learning_rate: 2e-3}}",
                  "a perplexity of 1.2 over 16 symbols"}},
  };
  return sources;
}

const DataSource& find_data_source(const std::string& name, const Place& place,
                                   const char* called) {
  std::vector<std::string> known;
  for (const auto& source : data_sources()) {
    if (source.name == name) return source;
    known.push_back(source.name);
  }
  throw UserError(place, "unknown " + std::string(called) + " '" + name + "'",
                  suggest(name, known));
}

Splits load_data(const DataConfig& config) {
  return find_data_source(config.name).load(config);
}

void make_data(const std::string& name, const std::string& dir, const Node& options,
               uint64_t seed) {
  find_data_source(name).make(dir, options, seed);
}

}  // namespace longbow
