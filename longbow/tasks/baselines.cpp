#include <cmath>

#include "longbow/data/listops.h"
#include "longbow/data/manifest.h"
#include "longbow/tasks/task.h"

namespace longbow {
namespace {

// The most frequent target for each value of `clue`, learnt on one split and scored on another.
class MajorityGiven {
 public:
  explicit MajorityGiven(std::function<int(const Sample&)> clue) : clue_(std::move(clue)) {}

  double accuracy(const Dataset& train, const Dataset& test) {
    each(train, [&](int clue, int32_t target) { ++counts_[clue][target]; });
    int64_t right = 0, all = 0;
    each(test, [&](int clue, int32_t target) {
      right += most_frequent(clue) == target;
      ++all;
    });
    return all == 0 ? 0 : static_cast<double>(right) / static_cast<double>(all);
  }

 private:
  void each(const Dataset& data, const std::function<void(int, int32_t)>& visit) const {
    for (int64_t i = 0; i < data.size(); ++i) {
      const auto sample = data.get(i);
      const int clue = clue_(sample);
      for (const auto target : sample.targets)
        if (target != kIgnore) visit(clue, target);
    }
  }
  int32_t most_frequent(int clue) {
    const auto& counts = counts_[clue];
    const auto best =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return best == counts.end() ? 0 : best->first;
  }
  std::function<int(const Sample&)> clue_;
  std::map<int, std::map<int32_t, int64_t>> counts_;
};

// The words that are predicted of a sample.
std::span<const int32_t> predicted(const Sample& sample, const std::string& objective) {
  if (objective == "translation") return sample.second;
  return std::span(sample.tokens).subspan(1);
}

// exp of the mean negative logarithm of the words' shares in the training split, where every word
// is counted once more than it occurs.
Baseline word_frequencies(const std::string& objective, const Splits& splits) {
  const bool translates = objective == "translation" && splits.second_vocabulary > 0;
  const auto vocabulary = translates ? splits.second_vocabulary : splits.vocabulary;
  std::vector<double> counts(static_cast<size_t>(vocabulary), 1);
  double all = static_cast<double>(vocabulary - 1);  // padding is no word
  for (int64_t i = 0; i < splits.train->size(); ++i) {
    const auto sample = splits.train->get(i);
    for (const auto word : predicted(sample, objective))
      ++counts.at(static_cast<size_t>(word)), ++all;
  }
  double nats = 0, words = 0;
  for (int64_t i = 0; i < splits.test->size(); ++i) {
    const auto sample = splits.test->get(i);
    for (const auto word : predicted(sample, objective))
      nats -= std::log(counts.at(static_cast<size_t>(word)) / all), ++words;
  }
  return {"word frequencies", "every word as likely as it is frequent in the training split",
          "perplexity", false, std::exp(nats / std::max(words, 1.0))};
}

std::vector<Baseline> markov_bounds(const DataConfig& config, const Splits& splits) {
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

std::vector<Baseline> class_baselines(const DataConfig& config, const Splits& splits) {
  const bool answers = splits.train->per_token() || splits.train->targets() > 0;
  if (!answers || splits.classes == 0) return {};
  std::vector<Baseline> rows;
  rows.push_back(
      {"majority class", "always the most frequent class of the training split", "accuracy", true,
       MajorityGiven([](const Sample&) { return 0; }).accuracy(*splits.train, *splits.test)});
  if (config.name == "listops")
    rows.push_back({"root operator only", "the most frequent class given the outermost operator",
                    "accuracy", true,
                    MajorityGiven(root_operator).accuracy(*splits.train, *splits.test)});
  return rows;
}

}  // namespace

std::vector<Baseline> baselines(const DataConfig& config, const std::string& objective,
                                const Splits& splits) {
  if (objective == "classification" || objective == "pairs" || objective == "characters")
    return class_baselines(config, splits);
  if (objective != "causal_lm" && objective != "translation") return {};
  std::vector<Baseline> rows = {word_frequencies(objective, splits)};
  if (objective == "causal_lm" && config.name == "markov")
    for (const auto& bound : markov_bounds(config, splits)) rows.push_back(bound);
  return rows;
}

}  // namespace longbow
