#include "longbow/data/samples/joined.h"

#include <algorithm>
#include <stdexcept>

namespace longbow {
namespace {

class Joined final : public Dataset {
 public:
  Joined(std::shared_ptr<const Dataset> pairs, int32_t separator, Answers answers,
         const Frame& frame)
      : pairs_(std::move(pairs)), separator_(separator), answers_(answers), frame_(frame) {
    if (!pairs_->has_second() || pairs_->per_token())
      throw std::invalid_argument("only pairs without a target per token can be joined");
    for (int64_t i = 0; i < pairs_->size(); ++i) {
      const auto sample = pairs_->get(i);
      lengths_.push_back(std::ssize(sample.tokens) + 1 + std::ssize(sample.second) +
                         frame_.tokens());
    }
  }
  int64_t size() const override { return pairs_->size(); }
  int64_t length(int64_t i) const override { return lengths_.at(static_cast<size_t>(i)); }
  int64_t targets() const override { return pairs_->targets(); }
  int64_t values() const override { return pairs_->values(); }
  bool has_segments() const override { return true; }

  Sample get(int64_t i) const override {
    auto sample = pairs_->get(i);
    if (frame_.first > 0)
      sample.tokens.insert(sample.tokens.begin(), static_cast<int32_t>(frame_.first));
    if (frame_.last > 0) sample.second.push_back(static_cast<int32_t>(frame_.last));
    sample.tokens.push_back(separator_);
    const auto before = sample.tokens.size();
    sample.segments.assign(before, 0);
    sample.segments.insert(sample.segments.end(), sample.second.size(), 1);
    sample.tokens.insert(sample.tokens.end(), sample.second.begin(), sample.second.end());
    sample.second.clear();
    if (answers_ == Answers::places)
      for (auto& place : sample.targets)
        if (place != kIgnore) place += static_cast<int32_t>(before);
    return sample;
  }

 private:
  std::shared_ptr<const Dataset> pairs_;
  int32_t separator_;
  Answers answers_;
  Frame frame_;
  std::vector<int64_t> lengths_;
};

}  // namespace

std::shared_ptr<const Dataset> joined(std::shared_ptr<const Dataset> pairs, int64_t separator,
                                      Answers answers, const Frame& frame) {
  return std::make_shared<Joined>(std::move(pairs), static_cast<int32_t>(separator), answers,
                                  frame);
}

Splits joined(Splits splits, Answers answers) {
  const bool own = splits.frame.last == 0;
  const auto separator = splits.separator = own ? splits.vocabulary++ : splits.frame.last;
  if (own && !splits.symbols.empty()) splits.symbols.emplace_back("<sep>");
  splits.max_length = 0;
  for (auto* split : {&splits.train, &splits.valid, &splits.test}) {
    *split = joined(*split, separator, answers, splits.frame);
    for (int64_t i = 0; i < (*split)->size(); ++i)
      splits.max_length = std::max(splits.max_length, (*split)->length(i));
  }
  return splits;
}

}  // namespace longbow
