#include "longbow/train/run/run_task.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "longbow/train/run/dry_run.h"
#include "tests/support/tensor.h"
#include "tests/train/runs.h"

namespace longbow {
namespace {

int64_t longest(const Dataset& data) {
  const auto lengths = lengths_of(data);
  return *std::max_element(lengths.begin(), lengths.end());
}

// Every sample of the training split fits.
TEST(TrainingOrder, RefusesBeforeTheFirstStepWhatNoEvaluationCouldRead) {
  const auto config = read_run_config(
      parse_yaml("task: listops\n"
                 "data: {seed: 2, listops: {train: 8, valid: 300, test: 300, min_length: 4, "
                 "max_length: 60, max_depth: 6}}\n"
                 "model: {width: 16, layers: 1}\n"
                 "train:\n"
                 "  max_steps: 3\n"
                 "  batch_size: 4\n"
                 "  lengths: [16, 32, 48]\n",
                 "run.yaml"));
  const auto splits = make_task(config, at::kCPU)->splits();
  ASSERT_LE(longest(*splits.train), 48);
  const auto of_valid = longest(*splits.valid);
  ASSERT_GT(of_valid, 48);
  const auto start = std::string("run.yaml:7: train.lengths ends at 48, but a sample has "),
             end = std::string(" tokens; add a longer one, or cut the samples with ") +
                   "data.max_tokens";
  const auto folder = scratch() + "/run";
  for (const auto& message :
       {error_of([&] { run(config, folder); }), error_of([&] { dry_run(config, at::kCPU); })}) {
    EXPECT_TRUE(message.starts_with(start) && message.ends_with(end)) << message;
  }
  EXPECT_FALSE(std::filesystem::exists(folder)) << "nothing has been written";
}

TEST(TrainingOrder, ReadsEverySampleOfTheSplitsThatFit) {
  RunConfig config = {.task = "recall", .objective = "classification"};
  config.data.name = "recall";
  config.data.options = parse_yaml(
      "{train: 10, valid: 7, test: 4, keys: 6, values: 3, pairs: 3, queries: 3}", "options");
  config.model = parse_yaml("{width: 16, layers: 1}", "model");
  config.train.sampler = {.batch_size = 4, .lengths = {9, 20}, .drop_last = true};
  const auto splits = make_task(config, at::kCPU)->splits();
  EXPECT_EQ(training_order(config, splits).batches_per_epoch(), 2);
  auto order = evaluation_order(lengths_of(*splits.valid), config.train.sampler);
  ASSERT_EQ(order.batches_per_epoch(), 2);
  EXPECT_EQ(order.next().indices, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(order.next().indices, (std::vector<int64_t>{4, 5, 6})) << "none is left out";
}

}  // namespace
}  // namespace longbow
