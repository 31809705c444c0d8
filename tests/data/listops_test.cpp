#include "longbow/data/sets/listops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/data/folder.h"

namespace longbow {
namespace {

constexpr int64_t kCount = 4000;

const GeneratedListOps& generated() {
  static const auto result = generate_listops({}, kCount, 1);
  return result;
}

// Four standard deviations of a share measured on `count` trials.
double tolerance(double share, double count) {
  return 4 * std::sqrt(share * (1 - share) / count);
}

void expect_share(int64_t hits, int64_t count, double share) {
  EXPECT_NEAR(double(hits) / double(count), share, tolerance(share, double(count)));
}

TEST(ListOps, HasTheLabelSharesOfTheOfficialGenerator) {
  std::vector<int64_t> labels(10);
  for (const auto& expression : generated().expressions)
    ++labels[static_cast<size_t>(expression.value())];
  expect_share(labels[0], kCount, 0.169);
  expect_share(labels[9], kCount, 0.166);
  for (size_t label = 1; label < 9; ++label) {
    auto share = double(labels[label]) / kCount;
    EXPECT_GT(share, 0.072 - tolerance(0.072, kCount)) << label;
    EXPECT_LT(share, 0.092 + tolerance(0.092, kCount)) << label;
  }
}

TEST(ListOps, AcceptsOneRootDrawInTwelve) {
  expect_share(kCount, generated().draws, 0.083);
}

TEST(ListOps, IsThirtySixPercentSolvedByTheRootOperator) {
  const std::vector<int> guess = {0, 9, 4, 0};  // for MIN, MAX, MED, SM
  int64_t hits = 0;
  for (const auto& expression : generated().expressions) {
    auto root = root_operator({.tokens = expression.tokens(), .targets = {}});
    ASSERT_GE(root, 0);
    if (guess[static_cast<size_t>(root)] == expression.value()) ++hits;
  }
  expect_share(hits, kCount, 0.361);
}

TEST(ListOps, IsSolvedInPartByItsUpperOperators) {
  const std::vector<int> guess = {0, 9, 4, 0};  // for MIN, MAX, MED, SM
  const std::vector<double> shares = {0.476, 0.673, 0.795, 0.868};
  for (size_t depth = 1; depth <= shares.size(); ++depth) {
    int64_t hits = 0;
    for (const auto& expression : generated().expressions) {
      const auto tokens = expression.tokens();
      const auto root = static_cast<size_t>(root_operator({.tokens = tokens, .targets = {}}));
      const auto value = value_to_depth(tokens, static_cast<int64_t>(depth));
      if (value.value_or(guess[root]) == expression.value()) ++hits;
    }
    EXPECT_NEAR(double(hits) / double(kCount), shares[depth - 1], 0.01) << "to depth " << depth;
  }
}

TEST(ListOps, HasTheTokenSharesAndLengthsOfTheOfficialGenerator) {
  std::vector<int64_t> tokens(static_cast<size_t>(listops::kVocabulary));
  int64_t total = 0;
  for (const auto& expression : generated().expressions) {
    EXPECT_GE(expression.symbols.size(), 501);
    EXPECT_LE(expression.symbols.size(), 1999);
    for (auto symbol : expression.symbols) ++tokens[symbol];
    total += std::ssize(expression.symbols);
  }
  EXPECT_NEAR(double(total) / kCount, 1034, 25);
  auto share = [&](size_t id) { return double(tokens[id]) / double(total); };
  for (size_t id = listops::kMin; id <= listops::kSum; ++id) EXPECT_NEAR(share(id), 0.0356, 4e-4);
  EXPECT_NEAR(share(listops::kClose), 0.142, 1e-3);
  for (size_t digit = 0; digit < 10; ++digit)
    EXPECT_NEAR(share(listops::kZero + digit), 0.0715, 5e-4);
}

TEST(ListOps, StaysWithinItsDepthAndArguments) {
  for (const auto& expression : generated().expressions) {
    std::vector<int64_t> open;
    size_t deepest = 0;
    for (auto symbol : expression.symbols) {
      if (symbol == listops::kClose) {
        EXPECT_GE(open.back(), 2);
        EXPECT_LE(open.back(), 10);
        open.pop_back();
        continue;
      }
      if (!open.empty()) ++open.back();
      deepest = std::max(deepest, open.size() + 1);
      if (symbol <= listops::kSum) open.push_back(0);
    }
    EXPECT_LE(deepest, 10);
  }
}

TEST(ListOps, DoesNotDependOnTheNumberOfThreads) {
  auto one = generate_listops({}, 700, 5, 1);
  for (int threads : {2, 3, 7}) {
    auto several = generate_listops({}, 700, 5, threads);
    EXPECT_EQ(several.expressions, one.expressions);
    EXPECT_EQ(several.draws, one.draws);
  }
  EXPECT_NE(generate_listops({}, 700, 6, 1).expressions, one.expressions);
}

TEST(ListOps, HoldsNoExpressionTwice) {
  const ListOpsConfig tiny{.min_length = 3, .max_length = 5, .max_depth = 2};
  auto all = generate_listops(tiny, 400, 1);  // 4 operators with two of ten digits: 400 there are
  std::set<std::vector<uint8_t>> distinct;
  for (const auto& expression : all.expressions) distinct.insert(expression.symbols);
  EXPECT_EQ(distinct.size(), 400);
}

TEST(ListOps, SaysWhenThereAreNotEnoughExpressions) {
  const ListOpsConfig tiny{.min_length = 3, .max_length = 5, .max_depth = 2};
  EXPECT_EQ(
      error_of([&] { generate_listops(tiny, 401, 1); }),
      "listops: 400 of 401 different expressions found in 1401000 draws; widen min_length and "
      "max_length, or raise max_depth or max_args");
  EXPECT_EQ(
      error_of([] { generate_listops({.min_length = 9, .max_length = 10}, 1, 1); }),
      "max_length is 10 and min_length is 9: no length lies between them; both ends are excluded");
}

const ListOpsConfig kSmall{
    .train = 50, .valid = 20, .test = 10, .min_length = 10, .max_length = 60, .max_depth = 4};

TEST(ListOps, MakesSplitsOfTheSizesAsked) {
  auto splits = make_listops(kSmall, 3);
  EXPECT_EQ(splits.train->size(), 50);
  EXPECT_EQ(splits.valid->size(), 20);
  EXPECT_EQ(splits.test->size(), 10);
  EXPECT_EQ(splits.vocabulary, 16);
  EXPECT_EQ(splits.classes, 10);
  EXPECT_FALSE(splits.per_token);
  EXPECT_LE(splits.max_length, 59);
  EXPECT_EQ(splits.symbols[5], "]");
  for (int64_t i = 0; i < 50; ++i) {
    auto sample = splits.train->get(i);
    EXPECT_EQ(std::ssize(sample.tokens), splits.train->length(i));
    EXPECT_EQ(sample.targets[0], expression_of(sample.tokens).value());
  }
}

TEST(ListOps, KeepsItsTestSetWhenTheTrainingSetGrows) {
  auto larger = kSmall;
  larger.train = 70;
  auto before = make_listops(kSmall, 3), after = make_listops(larger, 3);
  EXPECT_EQ(before.checksums["test"], after.checksums["test"]);
  EXPECT_EQ(before.checksums["valid"], after.checksums["valid"]);
  EXPECT_EQ(before.train->get(49).tokens, after.train->get(49).tokens);
}

TEST(ListOps, KnowsTheRootOperator) {
  EXPECT_EQ(root_operator({.tokens = {3, 8, 5}, .targets = {}}), 2);
  EXPECT_EQ(root_operator({.tokens = {8}, .targets = {}}), -1);
}

}  // namespace
}  // namespace longbow
