#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/models/heads/classifier.h"
#include "tests/support/tensor.h"
#include "tests/tasks/samples.h"

namespace longbow {
namespace {

const std::vector<Sample> kSamples = {
    {.tokens = {1, 2, 3}, .values = {0.5F, 4}},
    {.tokens = {6}, .values = {1.5F, 1}},
    {.tokens = {2, 2}, .values = {3, 0}},
};

Tensor outputs_of(Task& task, const Batch& batch) {
  Context context = {.mask = Mask::from_lengths(batch.lengths, batch.tokens.size(1))};
  return dynamic_cast<Classifier&>(task.model())(batch.tokens, context);
}

// One number at a time, from means.
double pearson_by_hand(const Tensor& x, const Tensor& y) {
  const int64_t count = x.size(0);
  double mean_x = 0, mean_y = 0, xy = 0, xx = 0, yy = 0;
  for (int64_t i = 0; i < count; ++i) {
    mean_x += x[i].item<double>() / static_cast<double>(count);
    mean_y += y[i].item<double>() / static_cast<double>(count);
  }
  for (int64_t i = 0; i < count; ++i) {
    const double dx = x[i].item<double>() - mean_x, dy = y[i].item<double>() - mean_y;
    xy += dx * dy;
    xx += dx * dx;
    yy += dy * dy;
  }
  return xy / std::sqrt(xx * yy);
}

TEST(Regression, SumsSquaredErrorsOfEveryValue) {
  const auto task = made("regression", splits_of(kSamples), "{width: 8, layers: 1, init: xavier}");
  task->model().eval();
  const auto batch = batch_of(*task, 3);
  const auto guesses = outputs_of(*task, batch);
  ASSERT_EQ(guesses.sizes(), (at::IntArrayRef{3, 2}));
  double error = 0;
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t k = 0; k < 2; ++k)
      error +=
          std::pow(guesses[row][k].item<double>() -
                       double{kSamples[static_cast<size_t>(row)].values[static_cast<size_t>(k)]},
                   2);
  const auto got = task->run(batch, {});
  EXPECT_NEAR(got.loss.item<double>(), error, 1e-4);
  EXPECT_EQ(value_of(got, "weight"), 6);
  EXPECT_EQ(value_of(got, "count"), 3);
  const auto metrics = task->metrics(got.sums);
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_EQ(metrics[0].name, "pearson");
  EXPECT_NEAR(metrics[0].value,
              (pearson_by_hand(guesses.select(1, 0), batch.values.select(1, 0)) +
               pearson_by_hand(guesses.select(1, 1), batch.values.select(1, 1))) /
                  2,
              1e-6);
  EXPECT_EQ(metrics[1].name, "mse");
  EXPECT_NEAR(metrics[1].value, error / 6, 1e-4);
  EXPECT_FALSE(metrics[1].larger_is_better);
  EXPECT_EQ(metrics[2].name, "loss");
}

TEST(Regression, EvaluationsAlsoRankAndCutTheValues) {
  const auto task = made("regression", splits_of(kSamples), "{width: 8, threshold: 1.5}");
  const auto batch = batch_of(*task, 3);
  task->model().train();
  EXPECT_TRUE(task->run(batch, {}).rows.empty());
  task->model().eval();
  const auto got = task->run(batch, {});
  EXPECT_TRUE(at::equal(got.rows.at("wanted"), batch.values));
  EXPECT_EQ(got.rows.at("guessed").sizes(), batch.values.sizes());
  auto sums = got.sums;
  // Of the first column the ranks are 1 3 2 for 1 2 3; of the second, all turned round.
  sums["wanted"] = at::tensor({0.5, 4.0, 1.5, 1.0, 3.0, 0.0}).view({3, 2});
  sums["guessed"] = at::tensor({0.0, -1.0, 9.0, 2.0, 1.4, 7.0}).view({3, 2});
  const auto metrics = task->metrics(sums);
  ASSERT_EQ(metrics.size(), 5u);
  EXPECT_EQ(metrics[3].name, "spearman");
  EXPECT_NEAR(metrics[3].value, (0.5 - 1.0) / 2, 1e-12);
  EXPECT_EQ(metrics[4].name, "f1");
  // First: wanted 0 1 1, guessed 0 1 0; second: wanted 1 0 0, guessed 0 1 1.
  EXPECT_NEAR(metrics[4].value, (2.0 / 3 + 0) / 2, 1e-12);
}

TEST(Regression, ARangeIsNeverLeft) {
  const auto task = made("regression", splits_of(kSamples),
                         "{width: 8, layers: 1, init: xavier, range: [-1, 5]}");
  task->model().eval();
  const auto batch = batch_of(*task, 3);
  const auto guesses = -1 + 6 / (1 + (-outputs_of(*task, batch)).exp());
  EXPECT_NEAR(task->run(batch, {}).loss.item<double>(),
              (guesses - batch.values).square().sum().item<double>(), 1e-4);
}

TEST(Regression, PairsAreReadAsTowersOrJoined) {
  auto pairs = kSamples;
  for (auto& sample : pairs) sample.second = {5, 6, 7, 8};
  const auto towers = made("regression", splits_of(pairs), "{width: 8, layers: 1, max_length: 8}");
  const auto joint = made("regression", splits_of(pairs), "{width: 8, layers: 1, pairs: joint}");
  EXPECT_EQ(towers->model().named_parameters()["output.weight"].sizes(),
            (at::IntArrayRef{2, 4 * 8}));
  EXPECT_EQ(joint->model().named_parameters()["output.weight"].sizes(), (at::IntArrayRef{2, 8}));
  for (const auto& task : {towers.get(), joint.get()}) {
    const auto outcome = task->run(batch_of(*task, 8), {});
    EXPECT_EQ(value_of(outcome, "count"), 3);
    EXPECT_TRUE(outcome.loss.isfinite().item<bool>());
    EXPECT_EQ(as_integer(*task->model_card().find("values"), "values"), 2);
  }
}

TEST(Regression, TheMetricsOfATrainingLineNeedNoTables) {
  const auto scalar = [](double value) { return at::full({}, value, at::kDouble); };
  const auto task = made("regression", splits_of(kSamples), "{width: 8, layers: 1}");
  const auto metrics = task->metrics({{"loss", scalar(3)}, {"weight", scalar(6)}});
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].name, "mse");
  EXPECT_EQ(metrics[0].value, 0.5);
}

TEST(Regression, SaysWhatItCannotDo) {
  const auto mistake = [](const Splits& splits, const std::string& model) {
    return error_of([&] { made("regression", splits, model); });
  };
  const auto splits = splits_of(kSamples);
  for (const auto* range : {"[1]", "[1, 1]", "[0, 1, 2]"})
    EXPECT_EQ(mistake(splits, "range: " + std::string(range)),
              "model:1: model.range is not two rising numbers; write [0, 5], or leave it out");
  EXPECT_EQ(mistake(splits_of({{.tokens = {1}, .targets = {0}}}, 2), "{width: 8}"),
            "objective regression: the samples have no values; leave objective out, to take what "
            "the data is made for");
}

}  // namespace
}  // namespace longbow
