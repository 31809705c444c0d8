#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/train/run/evaluate.h"
#include "longbow/train/run/finished_run.h"
#include "tests/support/tensor.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

std::unique_ptr<Task> tiny(double dropout = 0) {
  RunConfig config = {.task = "recall", .objective = "classification"};
  config.data.name = "recall";
  config.data.options = parse_yaml(
      "{train: 8, valid: 10, test: 8, keys: 6, values: 3, pairs: 3, queries: 2}", "options");
  config.model = parse_yaml("{width: 8, layers: 1}", "model");
  config.model["block"]["dropout"] = Node::number(dropout);
  config.train.sampler.bucket = 4;
  return make_task(config, at::kCPU);
}

double value_of(const Evaluation& evaluation, const std::string& name) {
  for (const auto& metric : evaluation.metrics)
    if (metric.name == name) return metric.value;
  ADD_FAILURE() << "no metric is called " << name;
  return 0;
}

TEST(Evaluate, DoesNotDependOnTheBatches) {
  const auto task = tiny();
  const auto& data = *task->splits().valid;
  const auto one = evaluate(*task, data, {.batch_size = 1, .bucket = 4});
  const auto many = evaluate(*task, data, {.batch_size = 7, .bucket = 4, .drop_last = true});
  EXPECT_EQ(one.count, 10 * 2);
  EXPECT_EQ(many.count, one.count) << "nothing is dropped";
  EXPECT_NEAR(value_of(many, "loss"), value_of(one, "loss"), 1e-5);
  EXPECT_EQ(value_of(many, "accuracy"), value_of(one, "accuracy"));
}

TEST(Evaluate, CanLookAtTheFirstSamplesOnly) {
  const auto task = tiny();
  EXPECT_EQ(evaluate(*task, *task->splits().valid, {.bucket = 4}, 3).count, 3 * 2);
  EXPECT_EQ(evaluate(*task, *task->splits().valid, {.bucket = 4}, 99).count, 10 * 2);
}

TEST(Evaluate, IsWithoutDropoutAndLeavesTheModelTraining) {
  const auto task = tiny(0.5);
  const auto first = evaluate(*task, *task->splits().valid, {.bucket = 4});
  EXPECT_EQ(value_of(evaluate(*task, *task->splits().valid, {.bucket = 4}), "loss"),
            value_of(first, "loss"));
  EXPECT_TRUE(task->model().is_training());
}

TEST(OpenRun, WantsAFolderOfAFinishedRun) {
  const auto folder = scratch();
  EXPECT_EQ(error_of([&] { open_run(folder, at::kCPU); }),
            folder +
                ": is not a run folder: config.yaml is missing; `longbow train` prints the "
                "folder it fills");
  write_file(folder + "/config.yaml", "task: recall\n");
  EXPECT_EQ(error_of([&] { open_run(folder, at::kCPU); }),
            folder +
                ": holds no finished run: model.safetensors is missing; finish it with "
                "`longbow train --resume`");
}

}  // namespace
}  // namespace longbow
