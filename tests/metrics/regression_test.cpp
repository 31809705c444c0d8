#include "longbow/metrics/regression.h"

#include <stdexcept>

#include "tests/metrics/vectors.h"

namespace longbow::metrics {
namespace {

TEST(Regression, ScoresAsScikitLearn) {
  const auto cases = vectors("classification-correlation.json").at("correlation");
  ASSERT_FALSE(cases.empty());
  for (const auto& given : cases) {
    SCOPED_TRACE(given.at("case").get<std::string>());
    const auto targets = given.at("x").get<std::vector<double>>();
    const auto predictions = given.at("y").get<std::vector<double>>();
    expect_close(mean_squared_error(predictions, targets), given.at("mse"));
    expect_close(mean_absolute_error(predictions, targets), given.at("mae"));
    expect_close(r_squared(predictions, targets), given.at("r2"));
  }
}

TEST(Regression, OfConstantTargetsIsOneOnlyWhenTheyAreMet) {
  const std::vector<double> targets = {2, 2}, met = {2, 2}, missed = {2, 3}, one = {2};
  EXPECT_EQ(r_squared(met, targets), 1);
  EXPECT_EQ(r_squared(missed, targets), 0);
  EXPECT_TRUE(std::isnan(r_squared(one, one)));
  EXPECT_THROW(mean_squared_error(one, targets), std::invalid_argument);
}

}  // namespace
}  // namespace longbow::metrics
