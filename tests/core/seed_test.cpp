#include "longbow/core/seed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace longbow {
namespace {

using Words = std::array<uint32_t, 4>;

double correlation(Stream a, Stream b, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += a.normal() * b.normal();
  return sum / count;
}

}  // namespace

TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(HashName, IsTheSameEverywhere) {
  EXPECT_EQ(hash_name(""), 0xf52a15e9a9b5e89bu);
  EXPECT_EQ(hash_name("dropout"), 0xf6a24e93a4bc2815u);
  std::set<uint64_t> seen;
  for (int i = 0; i < 10000; ++i) seen.insert(hash_name("layer." + std::to_string(i)));
  EXPECT_EQ(seen.size(), 10000u);
}

TEST(Stream, IsAFunctionOfSeedPurposeAndPosition) {
  Stream a(7, "order"), b(7, "order"), other_seed(8, "order"), other_purpose(7, "dropout");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.key(), other_seed.key());
  EXPECT_NE(a.key(), other_purpose.key());
  Stream copy = a;
  EXPECT_EQ(copy.next64(), a.next64());
}

TEST(Stream, KeepsItsNumbersForever) {
  Stream stream(1, "init");
  EXPECT_EQ(stream.next(), 2246604165u);
  EXPECT_EQ(stream.below(1000000), 520674);
}

TEST(Stream, ChildrenAreIndependentOfEachOtherAndOfTheirParent) {
  Stream parent(7, "order");
  std::set<uint64_t> keys = {parent.key()};
  for (uint64_t i = 0; i < 1000; ++i) keys.insert(parent.at(i).key());
  EXPECT_EQ(keys.size(), 1001u);
  constexpr int kCount = 20000;
  double limit = 4 / std::sqrt(kCount);
  EXPECT_LT(std::abs(correlation(parent, parent.at(0), kCount)), limit);
  EXPECT_LT(std::abs(correlation(parent.at(0), parent.at(1), kCount)), limit);
  EXPECT_LT(std::abs(correlation(Stream(1, "a"), Stream(2, "a"), kCount)), limit);
}

TEST(Stream, AtDoesNotDependOnThePosition) {
  Stream stream(7, "order");
  auto before = stream.at(3).key();
  stream.next();
  EXPECT_EQ(stream.at(3).key(), before);
}

TEST(Stream, UniformFillsTheUnitInterval) {
  Stream stream(3, "uniform");
  std::array<int, 16> bins{};
  constexpr int kCount = 160000;
  for (int i = 0; i < kCount; ++i) {
    double value = stream.uniform();
    ASSERT_TRUE(value >= 0 && value < 1);
    ++bins[static_cast<size_t>(value * 16)];
  }
  double chi2 = 0;
  for (int count : bins) chi2 += std::pow(count - kCount / 16.0, 2) / (kCount / 16.0);
  EXPECT_LT(chi2, 37.7) << "chi-squared, 15 degrees of freedom, p = 0.001";
}

TEST(Stream, BelowIsUnbiased) {
  Stream stream(3, "below");
  int64_t three_quarters = int64_t{3}
                           << 61;  // a remainder alone would favour the lower half by 3 : 2
  int low = 0;
  constexpr int kCount = 40000;
  for (int i = 0; i < kCount; ++i) low += stream.below(three_quarters) < three_quarters / 2;
  EXPECT_NEAR(low / double{kCount}, 0.5, 4 * 0.5 / std::sqrt(kCount));
  std::set<int64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(stream.below(7));
  EXPECT_EQ(seen, (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(stream.below(1), 0);
  EXPECT_THROW(stream.below(0), std::invalid_argument);
}

TEST(Stream, NormalHasTheMomentsOfANormal) {
  Stream stream(3, "normal");
  constexpr int kCount = 200000;
  double first = 0, second = 0, fourth = 0;
  for (int i = 0; i < kCount; ++i) {
    double x = stream.normal();
    first += x / kCount, second += x * x / kCount, fourth += x * x * x * x / kCount;
  }
  EXPECT_NEAR(first, 0, 0.01);
  EXPECT_NEAR(second, 1, 0.015);
  EXPECT_NEAR(fourth, 3, 0.12);
}

TEST(Stream, PermutationHoldsEveryIndexAndEveryOrder) {
  Stream stream(3, "permutation");
  auto order = stream.permutation(1000);
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted, all);
  EXPECT_NE(order, all);
  std::map<std::vector<int64_t>, int> counts;
  for (int i = 0; i < 24000; ++i) ++counts[stream.permutation(4)];
  EXPECT_EQ(counts.size(), 24u);
  for (const auto& [_, count] : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_TRUE(stream.permutation(0).empty());
  EXPECT_THROW(stream.permutation(-1), std::invalid_argument);
}

}  // namespace longbow
