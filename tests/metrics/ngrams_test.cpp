#include "longbow/metrics/ngrams.h"

#include <gtest/gtest.h>

#include <map>

namespace longbow::metrics {
namespace {

using Items = std::vector<uint32_t>;

std::map<Items, int64_t> counted(const Items& items, size_t order) {
  std::map<Items, int64_t> counts;
  for (size_t i = 0; i + order <= items.size(); ++i)
    ++counts[Items(items.begin() + static_cast<std::ptrdiff_t>(i),
                   items.begin() + static_cast<std::ptrdiff_t>(i + order))];
  return counts;
}

TEST(Ngrams, AreCountedAsInTables) {
  const std::vector<Items> sequences = {{1, 2, 1, 2, 1, 4000000000u, 2}, {2, 1, 2, 1, 2}, {7}, {}};
  Ngrams ngrams(sequences);
  for (size_t order = 1; order <= 6; ++order) {
    if (order > 1) ngrams.extend();
    const auto first = counted(sequences[0], order);
    for (size_t s = 0; s < sequences.size(); ++s) {
      int64_t shared = 0;
      const auto other = counted(sequences[s], order);
      for (const auto& [ngram, count] : first)
        if (const auto found = other.find(ngram); found != other.end())
          shared += std::min(count, found->second);
      EXPECT_EQ(shared_count(ngrams.counts(0), ngrams.counts(s)), shared) << order << " " << s;
      const auto size = sequences[s].size();
      EXPECT_EQ(ngrams.of(s).size(), size < order ? 0 : size - order + 1) << order << " " << s;
    }
  }
}

}  // namespace
}  // namespace longbow::metrics
