#include "longbow/tasks/classification.h"

#include <ATen/ATen.h>

namespace longbow {
namespace {

int64_t rounded_up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

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

Classification::Classification(const DataConfig& data, ClassifierConfig model, int64_t bucket,
                               uint64_t seed, at::Device device)
    : splits_(load_data(data)), config_(std::move(model)), device_(device) {
  auto& encoder = config_.encoder;
  const int64_t longest = rounded_up(splits_.max_length, bucket);
  if (encoder.max_length == 0) encoder.max_length = longest;
  if (encoder.max_length < longest)
    throw UserError("model.max_length is " + std::to_string(encoder.max_length) +
                        ", but the data has sequences of up to " + std::to_string(longest) +
                        " padded tokens",
                    "raise it, or cut the data with data.max_tokens");
  if (splits_.per_token) config_.pooling = Pooling::none;
  model_ = std::make_shared<Classifier>(config_, splits_.vocabulary, splits_.classes, seed);
  model_->to(device);
}

Scores Classification::run(const Batch& batch, const Random& random, Normalise normalise) {
  const auto tokens = batch.tokens.to(device_, true),
             targets = batch.targets.to(device_, true).flatten();
  Context context = {.mask = Mask::from_lengths(batch.lengths.to(device_, true), tokens.size(1)),
                     .random = random};
  const auto logits = (*model_)(tokens, context).flatten(0, -2);
  const auto counted = targets != kIgnore;
  auto loss = at::cross_entropy_loss(logits, targets, {}, at::Reduction::None, kIgnore);
  if (normalise == Normalise::samples) {
    const int64_t rows = tokens.size(0);
    loss = loss.view({rows, -1}).sum(1) / counted.view({rows, -1}).sum(1).clamp_min(1);
  }
  loss = loss.sum();
  if (context.loss.defined()) loss = loss + context.loss;
  return {loss, (logits.detach().argmax(-1) == targets).logical_and(counted).sum(), counted.sum()};
}

int64_t Classification::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : model_->parameters()) count += parameter.numel();
  return count;
}

std::vector<Baseline> baselines(const DataConfig& config, const Splits& splits) {
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
