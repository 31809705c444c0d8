#include "longbow/tasks/scores.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor logits_of(const std::vector<int64_t>& guesses, int64_t classes) {
  return at::one_hot(at::tensor(guesses, at::kLong), classes).to(at::kFloat);
}
Tensor longs(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

TEST(MacroF1, IsTheMeanOfTheScoresOfTheClasses) {
  // class 0: 2 hits, 3 targets, 2 guesses; 1: 1 hit, 1 target, 3 guesses; 2: 0 hits, 1 target.
  const auto tallies =
      class_tallies(logits_of({0, 0, 1, 1, 1, 2}, 4), longs({0, 0, 0, 1, 2, kIgnore}));
  EXPECT_NEAR_TENSOR(
      tallies, at::tensor({2, 1, 0, 0, 3, 1, 1, 0, 2, 3, 0, 0}, at::kDouble).view({3, 4}), kExact);
  EXPECT_DOUBLE_EQ(macro_f1(tallies), (2 * 2.0 / 5 + 2 * 1.0 / 4 + 0) / 3)
      << "class 3 is neither target nor guess";
}

TEST(MacroF1, TalliesOfBatchesAddUp) {
  const auto logits = random_normal({3, 7, 5}, 1);
  const auto targets =
      longs({0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, kIgnore, 2, 3, 4, 0, 1, 2, 3, 4, 0}).view({3, 7});
  auto sum = at::zeros({3, 5}, at::kDouble);
  for (int64_t row = 0; row < 3; ++row) sum += class_tallies(logits[row], targets[row]);
  EXPECT_NEAR_TENSOR(class_tallies(logits, targets), sum, kExact);
  EXPECT_EQ(sum[1].sum().item<double>(), 20);
  EXPECT_EQ(sum[2].sum().item<double>(), 20);
}

TEST(MacroF1, OfNothingIsZero) {
  EXPECT_EQ(macro_f1(at::zeros({3, 4}, at::kDouble)), 0);
}

TEST(ClassMetrics, TheChosenOneComesFirst) {
  const auto scalar = [](double value) { return at::full({}, value, at::kDouble); };
  Tensors sums = {
      {"correct", scalar(3)}, {"count", scalar(4)}, {"loss", scalar(2)}, {"weight", scalar(4)}};
  const auto names = [&](ClassMetric first) {
    std::string all;
    for (const auto& metric : class_metrics(sums, first)) all += metric.name + " ";
    return all;
  };
  EXPECT_EQ(names(ClassMetric::macro_f1), "accuracy loss ") << "no table while training";
  sums["tallies"] = at::ones({3, 2}, at::kDouble);
  EXPECT_EQ(names(ClassMetric::accuracy), "accuracy macro_f1 loss ");
  EXPECT_EQ(names(ClassMetric::macro_f1), "macro_f1 accuracy loss ");
  const auto metrics = class_metrics(sums, ClassMetric::accuracy);
  EXPECT_EQ(metrics[0].value, 0.75);
  EXPECT_EQ(metrics[1].value, 1);
  EXPECT_EQ(metrics[2].value, 0.5);
  EXPECT_FALSE(metrics[2].larger_is_better);
}

Tensor column(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble).unsqueeze(1);
}
double r_of(const Tensor& x, const Tensor& y) {
  return pearson(correlation_sums(x, y), static_cast<double>(x.size(0)));
}

TEST(Pearson, IsThatOfTheDefinition) {
  // Deviations (-1, 0, 1) and (-4/3, -1/3, 5/3): r = 3 / sqrt(2 * 14/3).
  EXPECT_NEAR(r_of(column({1, 2, 3}), column({2, 3, 5})), 3 / std::sqrt(28.0 / 3), 1e-12);
  EXPECT_NEAR(r_of(column({1, 2, 4}), column({-3, -5, -9})), -1, 1e-12);
  EXPECT_NEAR(r_of(column({1e6 + 1, 1e6 + 2, 1e6 + 3}), column({2, 3, 5})), 3 / std::sqrt(28.0 / 3),
              1e-3)
      << "far from zero";
}

TEST(Pearson, IsZeroWhereNothingVaries) {
  EXPECT_EQ(r_of(column({0.1, 0.1, 0.1}), column({1, 2, 3})), 0);
  EXPECT_EQ(r_of(column({1, 2, 3}), column({0.7, 0.7, 0.7})), 0);
  EXPECT_EQ(r_of(column({0, 0}), column({0, 0})), 0);
}

TEST(Pearson, OfSeveralValuesIsTheMean) {
  const auto x = at::cat({column({1, 2, 3}), column({1, 2, 3})}, 1);
  const auto y = at::cat({column({2, 4, 6}), column({2, 3, 5})}, 1);
  EXPECT_NEAR(r_of(x, y), (1 + 3 / std::sqrt(28.0 / 3)) / 2, 1e-12);
}

TEST(Pearson, SumsOfBatchesAddUp) {
  const auto x = random_normal({9, 2}, 1), y = x + random_normal({9, 2}, 2);
  auto sums = correlation_sums(x.narrow(0, 0, 4), y.narrow(0, 0, 4));
  for (const auto& [name, rest] : correlation_sums(x.narrow(0, 4, 5), y.narrow(0, 4, 5)))
    sums[name] = sums[name] + rest;
  EXPECT_NEAR(pearson(sums, 9), r_of(x, y), 1e-12);
}

TEST(SpanF1, IsTwiceTheOverlapOverBothLengths) {
  const auto f1 = [](int64_t a, int64_t b, int64_t c, int64_t d) {
    return span_f1(longs({a, b}).unsqueeze(0), longs({c, d}).unsqueeze(0)).item<double>();
  };
  EXPECT_DOUBLE_EQ(f1(2, 4, 2, 4), 1);
  EXPECT_DOUBLE_EQ(f1(2, 4, 4, 7), 2.0 * 1 / (3 + 4));
  EXPECT_DOUBLE_EQ(f1(4, 7, 2, 4), 2.0 * 1 / (3 + 4));
  EXPECT_DOUBLE_EQ(f1(0, 9, 3, 4), 2.0 * 2 / (10 + 2));
  EXPECT_DOUBLE_EQ(f1(0, 1, 3, 4), 0);
  EXPECT_DOUBLE_EQ(f1(1, 1, 2, 2), 0);
}

}  // namespace
}  // namespace longbow
