#include "longbow/metrics/correlation.h"

#include <stdexcept>

#include "tests/metrics/vectors.h"

namespace longbow::metrics {
namespace {

TEST(Correlation, IsThatOfSciPy) {
  const auto cases = vectors("classification-correlation.json").at("correlation");
  ASSERT_FALSE(cases.empty());
  for (const auto& given : cases) {
    SCOPED_TRACE(given.at("case").get<std::string>() + " of " +
                 std::to_string(given.at("x").size()));
    const auto x = given.at("x").get<std::vector<double>>();
    const auto y = given.at("y").get<std::vector<double>>();
    expect_close(pearson(x, y).value, given.at("pearson"));
    expect_close(spearman(x, y).value, given.at("spearman"));
    expect_close(kendall_tau_b(x, y), given.at("kendall_tau_b"));
    EXPECT_EQ(average_ranks(x), given.at("rank_x").get<std::vector<double>>());
  }
}

// A p value below 1e-3 is compared by its own size too, unless rounding made r exactly one.
TEST(Correlation, HasThePValuesOfSciPy) {
  for (const auto& given : vectors("classification-correlation.json").at("correlation")) {
    SCOPED_TRACE(given.at("case").get<std::string>() + " of " +
                 std::to_string(given.at("x").size()));
    const auto x = given.at("x").get<std::vector<double>>();
    const auto y = given.at("y").get<std::vector<double>>();
    for (const auto& [got, key] : {std::pair(pearson(x, y).p_value, "pearson_p"),
                                   std::pair(spearman(x, y).p_value, "spearman_p")}) {
      const auto& want = given.at(key);
      expect_close(got, want);
      if (want.is_number() && want.get<double>() > 0) {
        EXPECT_NEAR(got / want.get<double>(), 1, 1e-12) << key;
      }
    }
  }
}

TEST(Correlation, OfDifferentNumbersOfValuesIsRefused) {
  const std::vector<double> two = {1, 2}, one = {1};
  EXPECT_THROW(pearson(two, one), std::invalid_argument);
  EXPECT_THROW(spearman(two, one), std::invalid_argument);
  EXPECT_THROW(kendall_tau_b(two, one), std::invalid_argument);
}

TEST(Correlation, OfOneValueIsNotANumber) {
  const std::vector<double> one = {1};
  EXPECT_TRUE(std::isnan(pearson(one, one).value));
  EXPECT_TRUE(std::isnan(spearman(one, one).value));
  EXPECT_TRUE(std::isnan(kendall_tau_b(one, one)));
}

TEST(KendallTauB, CountsPairsAsTheDefinitionDoes) {
  std::vector<double> x, y;
  for (int i = 0; i < 97; ++i) {
    x.push_back(i * 37 % 11);
    y.push_back(i * i % 13);
  }
  double difference = 0, untied_x = 0, untied_y = 0;
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const double product = (x[i] - x[j]) * (y[i] - y[j]);
      difference += product > 0 ? 1 : product < 0 ? -1 : 0;
      untied_x += x[i] != x[j];
      untied_y += y[i] != y[j];
    }
  EXPECT_NEAR(kendall_tau_b(x, y), difference / std::sqrt(untied_x * untied_y), 1e-14);
}

}  // namespace
}  // namespace longbow::metrics
