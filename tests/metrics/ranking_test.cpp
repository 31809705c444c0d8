#include "longbow/metrics/ranking.h"

#include <stdexcept>

#include "tests/metrics/vectors.h"

namespace longbow::metrics {
namespace {

TEST(Ranking, ScoresAsScikitLearn) {
  const auto cases = vectors("classification-correlation.json").at("ranking");
  ASSERT_FALSE(cases.empty());
  for (const auto& given : cases) {
    const auto positive = given.at("y_true").get<std::vector<uint8_t>>();
    const auto scores = given.at("score").get<std::vector<double>>();
    expect_close(roc_auc(scores, positive), given.at("roc_auc"));
    expect_close(average_precision(scores, positive), given.at("average_precision"));
    auto probabilities = scores;
    for (auto& value : probabilities) value = 1 / (1 + std::exp(-value));
    expect_close(log_loss(probabilities, positive), given.at("log_loss"));
  }
}

TEST(Ranking, OfOneClassIsNotANumber) {
  const std::vector<double> scores = {0.1, 0.2};
  EXPECT_TRUE(std::isnan(roc_auc(scores, std::vector<uint8_t>{1, 1})));
  EXPECT_EQ(average_precision(scores, std::vector<uint8_t>{0, 0}), 0);
  EXPECT_THROW(roc_auc(scores, std::vector<uint8_t>{1}), std::invalid_argument);
}

TEST(LogLoss, OfTwoClassesIsThatOfTheirColumn) {
  const std::vector<double> rows = {0.25, 0.75, 0.9, 0.1}, column = {0.75, 0.1};
  EXPECT_DOUBLE_EQ(log_loss(rows, 2, std::vector<size_t>{1, 0}),
                   log_loss(column, std::vector<uint8_t>{1, 0}));
  EXPECT_THROW(log_loss(rows, 2, std::vector<size_t>{1, 2}), std::out_of_range);
  EXPECT_THROW(log_loss(rows, 3, std::vector<size_t>{1, 0}), std::invalid_argument);
}

TEST(LogLoss, StaysFiniteWhereAProbabilityIsZero) {
  const double loss = log_loss(std::vector<double>{0}, std::vector<uint8_t>{1});
  EXPECT_NEAR(loss, 52 * std::log(2), 1e-9);
}

}  // namespace
}  // namespace longbow::metrics
