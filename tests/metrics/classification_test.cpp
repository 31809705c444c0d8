#include "longbow/metrics/classification.h"

#include <algorithm>
#include <stdexcept>

#include "tests/metrics/vectors.h"

namespace longbow::metrics {
namespace {

using nlohmann::json;

// Labels of a case as classes; `listed` are those that its scores are about.
struct Case {
  explicit Case(const json& given) {
    for (const auto* side : {"y_true", "y_pred", "labels"})
      if (!given.at(side).is_null())
        for (const auto& label : given.at(side)) known.push_back(label.get<int>());
    std::ranges::sort(known);
    known.erase(std::unique(known.begin(), known.end()), known.end());
    truths = classes(given.at("y_true"));
    predictions = classes(given.at("y_pred"));
    listed = classes(given.at("labels").is_null() ? json(known) : given.at("labels"));
  }

  std::vector<size_t> classes(const json& labels) const {
    std::vector<size_t> found;
    for (const auto& label : labels)
      found.push_back(
          static_cast<size_t>(std::ranges::lower_bound(known, label.get<int>()) - known.begin()));
    return found;
  }

  ConfusionMatrix matrix(const std::vector<double>& weights = {}) const {
    ConfusionMatrix counted(known.size());
    counted.add(truths, predictions, weights);
    return counted;
  }

  std::vector<int> known;
  std::vector<size_t> truths, predictions, listed;
};

class Classification : public testing::TestWithParam<json> {
 protected:
  const json& given() const { return GetParam(); }
  const Case labels{GetParam()};
  const ConfusionMatrix matrix = labels.matrix();
};

TEST_P(Classification, CountsAsScikitLearn) {
  const auto& want = given().at("confusion");
  for (size_t i = 0; i < labels.listed.size(); ++i)
    for (size_t j = 0; j < labels.listed.size(); ++j)
      EXPECT_EQ(matrix.at(labels.listed[i], labels.listed[j]), want.at(i).at(j).get<double>());
}

TEST_P(Classification, ScoresAsScikitLearn) {
  expect_close(accuracy(matrix), given().at("accuracy"));
  expect_close(balanced_accuracy(matrix), given().at("balanced_accuracy"));
  expect_close(matthews(matrix), given().at("matthews"));
  expect_close(cohen_kappa(matrix), given().at("cohen_kappa"));
}

TEST_P(Classification, AveragesAsScikitLearn) {
  for (const auto& [average, name] : {std::pair(Average::macro, "macro"),
                                      {Average::micro, "micro"},
                                      {Average::weighted, "weighted"}})
    for (const int zero_division : {0, 1}) {
      const auto key = std::string(name) + "_zero_division_" + std::to_string(zero_division);
      SCOPED_TRACE(key);
      const auto scores = average_scores(
          matrix, average,
          {.zero_division = static_cast<double>(zero_division), .classes = labels.listed});
      const auto& want = given().at(key);
      expect_close(scores.precision, want.at("precision"));
      expect_close(scores.recall, want.at("recall"));
      expect_close(scores.f1, want.at("f1"));
    }
}

TEST_P(Classification, ScoresEachClassAsScikitLearn) {
  const auto& want = given().at("per_class");
  for (size_t i = 0; i < labels.listed.size(); ++i) {
    const auto scores = scores_of(matrix, labels.listed[i]);
    expect_close(scores.precision, want.at("precision").at(i));
    expect_close(scores.recall, want.at("recall").at(i));
    expect_close(scores.f1, want.at("f1").at(i));
    EXPECT_EQ(scores.support, want.at("support").at(i).get<double>());
  }
  if (given().contains("binary_f1_of_class_1")) {
    const auto one = std::ranges::find(labels.known, 1) - labels.known.begin();
    expect_close(scores_of(matrix, static_cast<size_t>(one)).f1,
                 given().at("binary_f1_of_class_1"));
  }
}

TEST_P(Classification, WeighsSamplesAsScikitLearn) {
  const auto weighted = labels.matrix(given().at("sample_weight").get<std::vector<double>>());
  const auto& want = given().at("weighted_samples");
  expect_close(accuracy(weighted), want.at("accuracy"));
  expect_close(average_scores(weighted, Average::macro).f1, want.at("macro_f1"));
  expect_close(matthews(weighted), want.at("matthews"));
}

INSTANTIATE_TEST_SUITE_P(Vectors, Classification,
                         testing::ValuesIn(vectors("classification-correlation.json")
                                               .at("classification")
                                               .get<std::vector<json>>()),
                         [](const auto& info) {
                           auto name = info.param.at("case").template get<std::string>();
                           std::ranges::replace(name, ' ', '_');
                           return name + "_" + std::to_string(info.index);
                         });

TEST(AverageScores, LeavesOutClassesThatNeverOccur) {
  ConfusionMatrix matrix(5);  // classes 2 to 4 do not occur
  matrix.add(0, 0);
  matrix.add(1, 0);
  EXPECT_DOUBLE_EQ(average_scores(matrix, Average::macro).f1, (2.0 / 3 + 0) / 2);
}

TEST(AverageScores, OfNothingIsNotANumber) {
  EXPECT_TRUE(std::isnan(average_scores(ConfusionMatrix(3), Average::macro).f1));
  EXPECT_TRUE(std::isnan(accuracy(ConfusionMatrix(3))));
}

TEST(F1AtThreshold, CutsBothSidesAtTheThreshold) {
  const std::vector<double> predictions = {3.0, 2.9, 4.5, 1.0}, targets = {3.0, 3.2, 2.9, 0.0};
  EXPECT_DOUBLE_EQ(f1_at_threshold(predictions, targets, 3), 0.5);
  EXPECT_DOUBLE_EQ(f1_at_threshold(predictions, targets, 10), 0);
  EXPECT_DOUBLE_EQ(f1_at_threshold(predictions, targets, 10, 1), 1);
  EXPECT_THROW(f1_at_threshold(predictions, std::vector<double>{1}, 3), std::invalid_argument);
}

}  // namespace
}  // namespace longbow::metrics
