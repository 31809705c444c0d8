#include <cmath>

#include "longbow/tasks/objectives.h"

namespace longbow {

std::vector<Baseline> class_baselines(const Splits& splits) {
  const bool answers = splits.train->per_token() || splits.train->targets() > 0;
  if (!answers || splits.classes == 0) return {};
  return {{"majority class", "always the most frequent class of the training split", "accuracy",
           true, majority_accuracy(splits, [](const Sample&) { return 0; })}};
}

// exp of the mean negative logarithm of the words' shares in the training split, where every word
// is counted once more than it occurs.
std::vector<Baseline> word_baselines(const Splits& splits, int64_t vocabulary,
                                     std::span<const int32_t> (*predicted)(const Sample&)) {
  std::vector<double> counts(static_cast<size_t>(vocabulary), 1);
  double all = static_cast<double>(vocabulary - 1);  // padding is no word
  for (int64_t i = 0; i < splits.train->size(); ++i) {
    const auto sample = splits.train->get(i);
    for (const auto word : predicted(sample)) ++counts.at(static_cast<size_t>(word)), ++all;
  }
  double nats = 0, words = 0;
  for (int64_t i = 0; i < splits.test->size(); ++i) {
    const auto sample = splits.test->get(i);
    for (const auto word : predicted(sample))
      nats -= std::log(counts.at(static_cast<size_t>(word)) / all), ++words;
  }
  return {{"word frequencies", "every word as likely as it is frequent in the training split",
           "perplexity", false, std::exp(nats / std::max(words, 1.0))}};
}

std::vector<Baseline> baselines(const DataConfig& config, const std::string& objective,
                                const Splits& splits) {
  const auto& own = find_objective(objective).baselines;
  auto rows = own ? own(splits) : std::vector<Baseline>();
  const auto& known = find_data_source(config.name).baselines;
  if (rows.empty() || !known) return rows;
  for (const auto& row : known(config, splits))
    if (row.metric == rows.front().metric) rows.push_back(row);
  return rows;
}

}  // namespace longbow
