#include "longbow/data/listops.h"
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

}  // namespace

std::vector<Baseline> baselines(const DataConfig& config, const Splits& splits) {
  const bool answers = splits.train->per_token() || splits.train->targets() > 0;
  if (!answers || splits.classes == 0) return {};
  std::vector<Baseline> rows;
  rows.push_back(
      {"majority class", "always the most frequent class of the training split",
       MajorityGiven([](const Sample&) { return 0; }).accuracy(*splits.train, *splits.test)});
  if (config.name == "listops")
    rows.push_back({"root operator only", "the most frequent class given the outermost operator",
                    MajorityGiven(root_operator).accuracy(*splits.train, *splits.test)});
  return rows;
}

}  // namespace longbow
