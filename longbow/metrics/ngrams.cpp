#include "longbow/metrics/ngrams.h"

#include <algorithm>
#include <utility>

namespace longbow::metrics {

Ngrams::Ngrams(std::vector<std::vector<uint32_t>> sequences) : items_(std::move(sequences)) {
  std::vector<std::vector<uint64_t>> keys;
  keys.reserve(items_.size());
  for (const auto& items : items_) keys.emplace_back(items.begin(), items.end());
  numbers_.resize(items_.size());
  renumber(std::move(keys));
}

// An n-gram is the one before it and its last item, which fit one word: both are 32 bits.
void Ngrams::extend() {
  std::vector<std::vector<uint64_t>> keys(items_.size());
  for (size_t s = 0; s < items_.size(); ++s) {
    if (items_[s].size() <= order_) continue;
    keys[s].resize(items_[s].size() - order_);
    for (size_t i = 0; i < keys[s].size(); ++i)
      keys[s][i] = uint64_t{numbers_[s][i]} << 32 | items_[s][i + order_];
  }
  ++order_;
  renumber(std::move(keys));
}

void Ngrams::renumber(std::vector<std::vector<uint64_t>> keys) {
  std::vector<uint64_t> known;
  for (const auto& list : keys) known.insert(known.end(), list.begin(), list.end());
  std::ranges::sort(known);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  distinct_ = known.size();
  for (size_t s = 0; s < keys.size(); ++s) {
    numbers_[s].resize(keys[s].size());
    for (size_t i = 0; i < keys[s].size(); ++i)
      numbers_[s][i] =
          static_cast<uint32_t>(std::ranges::lower_bound(known, keys[s][i]) - known.begin());
  }
}

std::vector<uint32_t> Ngrams::counts(size_t sequence) const {
  std::vector<uint32_t> counts(distinct_);
  for (const auto number : numbers_[sequence]) ++counts[number];
  return counts;
}

int64_t shared_count(std::span<const uint32_t> left, std::span<const uint32_t> right) {
  int64_t sum = 0;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i)
    sum += std::min(left[i], right[i]);
  return sum;
}

}  // namespace longbow::metrics
