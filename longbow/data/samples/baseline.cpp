#include "longbow/data/samples/baseline.h"

#include <algorithm>

namespace longbow {
namespace {

using Counts = std::map<int32_t, int64_t>;

int32_t most_frequent(const Counts& counts) {
  const auto best =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return best == counts.end() ? 0 : best->first;
}

}  // namespace

double majority_accuracy(const Splits& splits, const std::function<int(const Sample&)>& clue) {
  return answer_accuracy(
      splits, [](const Sample&) { return std::nullopt; }, clue);
}

double answer_accuracy(const Splits& splits,
                       const std::function<std::optional<int>(const Sample&)>& answer,
                       const std::function<int(const Sample&)>& clue) {
  const auto each = [](const Dataset& data, const auto& visit) {
    for (int64_t i = 0; i < data.size(); ++i) {
      const auto sample = data.get(i);
      for (const auto target : sample.targets)
        if (target != kIgnore) visit(sample, target);
    }
  };
  std::map<int, Counts> counts;
  each(*splits.train,
       [&](const Sample& sample, int32_t target) { ++counts[clue(sample)][target]; });
  int64_t right = 0, all = 0;
  each(*splits.test, [&](const Sample& sample, int32_t target) {
    const auto known = answer(sample);
    right += (known ? *known : most_frequent(counts[clue(sample)])) == target;
    ++all;
  });
  return all == 0 ? 0 : static_cast<double>(right) / static_cast<double>(all);
}

}  // namespace longbow
