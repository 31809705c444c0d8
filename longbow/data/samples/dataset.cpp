#include "longbow/data/samples/dataset.h"

#include <algorithm>
#include <bit>

#include "longbow/core/file.h"

namespace longbow {
namespace {

class Truncated final : public Dataset {
 public:
  Truncated(std::shared_ptr<const Dataset> whole, int64_t max_tokens)
      : whole_(std::move(whole)), max_tokens_(max_tokens) {}
  int64_t size() const override { return whole_->size(); }
  int64_t length(int64_t i) const override { return std::min(whole_->length(i), max_tokens_); }
  bool per_token() const override { return whole_->per_token(); }
  int64_t targets() const override { return whole_->targets(); }
  int64_t values() const override { return whole_->values(); }
  bool has_second() const override { return whole_->has_second(); }
  bool has_segments() const override { return whole_->has_segments(); }
  Sample get(int64_t i) const override {
    auto sample = whole_->get(i);
    const auto most = static_cast<size_t>(max_tokens_);
    const auto cut = [&](auto& list) { list.resize(std::min(list.size(), most)); };
    cut(sample.tokens);
    cut(sample.second);
    cut(sample.segments);
    if (per_token()) cut(sample.targets);
    return sample;
  }

 private:
  std::shared_ptr<const Dataset> whole_;
  int64_t max_tokens_;
};

int64_t longest(const Dataset& dataset) {
  int64_t most = 0;
  for (int64_t i = 0; i < dataset.size(); ++i) most = std::max(most, dataset.length(i));
  return most;
}

// Little-endian, so that a checksum is the same on every machine.
void append_number(std::string& bytes, int64_t value, int width) {
  for (int shift = 0; shift < 8 * width; shift += 8)
    bytes.push_back(static_cast<char>((static_cast<uint64_t>(value) >> shift) & 0xff));
}

}  // namespace

// A chain of hashes, so that no second copy of all samples is needed.
std::string Dataset::checksum() const {
  constexpr size_t kBlock = size_t{1} << 20;
  std::string pending;
  const auto append = [&](const auto& list, int width) {
    for (const auto value : list) append_number(pending, value, width);
  };
  const auto append_token = [&](int32_t token) {
    append_number(pending, token, token > 0xffff ? 4 : 2);
  };
  for (int64_t i = 0; i < size(); ++i) {
    const auto sample = get(i);
    append_number(pending, std::ssize(sample.tokens), 4);
    for (const auto token : sample.tokens) append_token(token);
    append(sample.targets, 4);
    append(sample.segments, 1);
    if (has_second()) append_number(pending, std::ssize(sample.second), 4);
    for (const auto token : sample.second) append_token(token);
    for (const auto value : sample.values) append_number(pending, std::bit_cast<int32_t>(value), 4);
    if (pending.size() > kBlock) pending = sha256(pending);
  }
  return sha256(pending);
}

int64_t MemoryDataset::length(int64_t i) const {
  auto index = static_cast<size_t>(i);
  return ends_.at(index + 1) - ends_.at(index);
}

Sample MemoryDataset::get(int64_t i) const {
  auto first = ends_.at(static_cast<size_t>(i)), last = ends_.at(static_cast<size_t>(i) + 1);
  auto target_first = per_token_ ? first : i, target_last = per_token_ ? last : i + 1;
  return {.tokens = {tokens_.begin() + first, tokens_.begin() + last},
          .targets = {targets_.begin() + target_first, targets_.begin() + target_last}};
}

SampleList::SampleList(std::vector<Sample> samples, bool per_token)
    : samples_(std::move(samples)), per_token_(per_token) {
  for (const auto& sample : samples_) {
    const auto& first = samples_.front();
    const bool alike = sample.second.empty() == first.second.empty() &&
                       sample.segments.empty() == first.segments.empty() &&
                       sample.values.size() == first.values.size() &&
                       sample.reference.has_value() == first.reference.has_value() &&
                       (per_token || sample.targets.size() == first.targets.size());
    if (!alike) throw std::invalid_argument("samples of a list are not alike");
  }
}

int64_t SampleList::length(int64_t i) const {
  const auto& sample = samples_.at(static_cast<size_t>(i));
  return static_cast<int64_t>(std::max(sample.tokens.size(), sample.second.size()));
}
int64_t SampleList::targets() const {
  return samples_.empty() ? 0 : static_cast<int64_t>(samples_.front().targets.size());
}
int64_t SampleList::values() const {
  return samples_.empty() ? 0 : static_cast<int64_t>(samples_.front().values.size());
}
bool SampleList::has_second() const {
  return !samples_.empty() && !samples_.front().second.empty();
}
bool SampleList::has_segments() const {
  return !samples_.empty() && !samples_.front().segments.empty();
}

void set_splits(Splits& splits, std::shared_ptr<const Dataset> train,
                std::shared_ptr<const Dataset> valid, std::shared_ptr<const Dataset> test) {
  splits.checksums["train"] = train->checksum();
  splits.checksums["valid"] = valid->checksum();
  splits.checksums["test"] = test->checksum();
  splits.max_length = std::max({longest(*train), longest(*valid), longest(*test)});
  splits.per_token = train->per_token();
  splits.train = std::move(train);
  splits.valid = std::move(valid);
  splits.test = std::move(test);
}

Splits truncate(Splits splits, int64_t max_tokens) {
  if (max_tokens <= 0 || splits.max_length <= max_tokens) return splits;
  for (auto* split : {&splits.train, &splits.valid, &splits.test}) {
    for (int64_t i = 0; i < (*split)->size(); ++i)
      if ((*split)->length(i) > max_tokens) ++splits.truncated;
    *split = std::make_shared<Truncated>(*split, max_tokens);
  }
  splits.max_length = max_tokens;
  return splits;
}

}  // namespace longbow
