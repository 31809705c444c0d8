#include "longbow/tasks/classification.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

DataConfig tiny_recall() {
  DataConfig data = {.name = "recall"};
  data.recall = {.train = 12, .valid = 4, .test = 4, .keys = 6, .values = 3, .pairs = 4};
  data.recall.pairs_min = 2;
  data.recall.queries = 3;
  return data;
}

DataConfig tiny_listops() {
  DataConfig data = {.name = "listops"};
  data.listops = {.train = 20, .valid = 4, .test = 4, .min_length = 3, .max_length = 20};
  return data;
}

ClassifierConfig small() {
  ClassifierConfig model;
  model.encoder.width = 8;
  model.encoder.layers = 1;
  model.encoder.init = Init::xavier;
  return model;
}

Batch first_samples(const Dataset& data, int64_t count, int64_t padded) {
  Plan plan = {.padded_length = padded};
  for (int64_t i = 0; i < count; ++i) plan.indices.push_back(i);
  return collate(data, plan);
}

struct Expected {
  double loss = 0;
  int64_t correct = 0, count = 0;
};

// Cross-entropy and accuracy, one target at a time.
Expected by_hand(const Tensor& logits, const Tensor& targets) {
  Expected sum;
  const auto rows = logits.detach().to(at::kDouble).flatten(0, -2);
  const auto wanted = targets.flatten();
  for (int64_t i = 0; i < wanted.size(0); ++i) {
    const auto target = wanted[i].item<int64_t>();
    if (target == kIgnore) continue;
    double normaliser = 0, best = -1e300;
    int64_t guess = 0;
    for (int64_t c = 0; c < rows.size(1); ++c) {
      const double logit = rows[i][c].item<double>();
      normaliser += std::exp(logit);
      if (logit > best) guess = c;
      best = std::max(best, logit);
    }
    sum.loss += std::log(normaliser) - rows[i][target].item<double>();
    sum.correct += guess == target;
    ++sum.count;
  }
  return sum;
}

void expect_by_hand(const DataConfig& data) {
  Classification task(data, small(), 4, 1, at::kCPU);
  task.model().eval();
  const auto batch = first_samples(*task.splits().train, 6, task.model_config().encoder.max_length);
  Context context = {.mask = Mask::from_lengths(batch.lengths, batch.tokens.size(1))};
  const auto want = by_hand(task.model()(batch.tokens, context), batch.targets);
  const auto got = task.run(batch, {});
  EXPECT_NEAR(got.loss.item<double>(), want.loss, 1e-4);
  EXPECT_EQ(got.correct.item<int64_t>(), want.correct);
  EXPECT_EQ(got.count.item<int64_t>(), want.count);
  EXPECT_GT(want.count, 0);
}

TEST(Classification, SumsCrossEntropyAndHitsOfOneClassPerSequence) {
  expect_by_hand(tiny_listops());
}

TEST(Classification, CountsOnlyMarkedTokens) {
  expect_by_hand(tiny_recall());
  Classification task(tiny_recall(), small(), 4, 1, at::kCPU);
  const auto batch = first_samples(*task.splits().train, 6, task.model_config().encoder.max_length);
  EXPECT_EQ(task.run(batch, {}).count.item<int64_t>(), 6 * 3);
  EXPECT_GT(batch.tokens.numel(), 6 * 3);
}

TEST(Classification, NormalisedBySamplesARowWithFewerTargetsWeighsTheSame) {
  Classification task(tiny_recall(), small(), 4, 1, at::kCPU);
  task.model().eval();
  auto batch = first_samples(*task.splits().train, 3, task.model_config().encoder.max_length);
  const auto marked = (batch.targets[0] != kIgnore).nonzero().flatten();
  batch.targets[0].index_fill_(0, marked.narrow(0, 0, 2), kIgnore);  // one of three is left
  Context context = {.mask = Mask::from_lengths(batch.lengths, batch.tokens.size(1))};
  const auto logits = task.model()(batch.tokens, context);
  double want = 0;
  for (int64_t row = 0; row < 3; ++row) {
    const auto one = by_hand(logits.narrow(0, row, 1), batch.targets.narrow(0, row, 1));
    want += one.loss / static_cast<double>(one.count);
  }
  EXPECT_NEAR(task.run(batch, {}, Normalise::samples).loss.item<double>(), want, 1e-4);
}

TEST(Classification, TheDataDecidesLengthAndPooling) {
  Classification tokens(tiny_recall(), small(), 8, 1, at::kCPU);
  EXPECT_EQ(tokens.splits().max_length, 2 * 4 + 1 + 3);
  EXPECT_EQ(tokens.model_config().encoder.max_length, 16) << "a multiple of the bucket";
  EXPECT_EQ(tokens.model_config().pooling, Pooling::none);
  Classification sequences(tiny_listops(), small(), 8, 1, at::kCPU);
  EXPECT_EQ(sequences.model_config().pooling, Pooling::mean);
  int64_t count = 0;
  for (const auto& parameter : sequences.model().parameters()) count += parameter.numel();
  EXPECT_EQ(sequences.parameter_count(), count);
}

TEST(Classification, AModelThatIsTooShortIsAMistake) {
  auto model = small();
  model.encoder.max_length = 8;
  EXPECT_EQ(error_of([&] { Classification(tiny_recall(), model, 4, 1, at::kCPU); }),
            "model.max_length is 8, but the data has sequences of up to 12 padded tokens; raise "
            "it, or cut the data with data.max_tokens");
}

using namespace listops;

std::shared_ptr<MemoryDataset> expressions(const std::vector<std::pair<uint8_t, int32_t>>& rows) {
  auto data = std::make_shared<MemoryDataset>(MemoryDataset::Targets::one_class);
  for (const auto& [root, target] : rows)
    data->add(std::vector<int32_t>{root, kZero, kZero, kClose}, std::vector<int32_t>{target});
  return data;
}

TEST(Baselines, AreLearntOnTrainAndScoredOnTest) {
  Splits splits;
  splits.train = expressions({{kMin, 1}, {kMin, 1}, {kMin, 4}, {kMax, 9}, {kMax, 9}, {kMax, 9}});
  splits.test = expressions({{kMin, 1}, {kMin, 4}, {kMax, 9}, {kMax, 1}, {kMedian, 0}});
  const auto rows = baselines({.name = "listops"}, splits);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "majority class");
  EXPECT_DOUBLE_EQ(rows[0].accuracy, 1.0 / 5) << "always 9";
  EXPECT_EQ(rows[1].name, "root operator only");
  EXPECT_DOUBLE_EQ(rows[1].accuracy, 3.0 / 5) << "1 for MIN, 9 for MAX, 0 for what was never seen";
}

TEST(Baselines, IgnoreTokensWithoutATarget) {
  auto data = std::make_shared<MemoryDataset>(MemoryDataset::Targets::per_token);
  data->add(std::vector<int32_t>{5, 6, 7, 8}, std::vector<int32_t>{kIgnore, 2, kIgnore, 1});
  data->add(std::vector<int32_t>{5, 6}, std::vector<int32_t>{2, kIgnore});
  const auto rows = baselines({.name = "recall"}, {.train = data, .test = data});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].accuracy, 2.0 / 3);
}

}  // namespace
}  // namespace longbow
