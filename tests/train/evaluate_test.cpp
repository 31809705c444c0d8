#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/train/trainer.h"
#include "tests/support/tensor.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

Classification tiny(double dropout = 0) {
  DataConfig data = {.name = "recall"};
  data.recall = {.train = 8, .valid = 10, .test = 8, .keys = 6, .values = 3, .pairs = 3};
  data.recall.queries = 2;
  ClassifierConfig model;
  model.encoder.width = 8;
  model.encoder.layers = 1;
  model.encoder.block.dropout = dropout;
  return Classification(data, model, 4, 1, at::kCPU);
}

TEST(Evaluate, DoesNotDependOnTheBatches) {
  auto task = tiny();
  const auto& data = *task.splits().valid;
  const auto one = evaluate(task, data, {.batch_size = 1, .bucket = 4});
  const auto many = evaluate(task, data, {.batch_size = 7, .bucket = 4, .drop_last = true});
  EXPECT_EQ(one.count, 10 * 2);
  EXPECT_EQ(many.count, one.count) << "nothing is dropped";
  EXPECT_NEAR(many.loss, one.loss, 1e-5);
  EXPECT_EQ(many.accuracy, one.accuracy);
}

TEST(Evaluate, CanLookAtTheFirstSamplesOnly) {
  auto task = tiny();
  EXPECT_EQ(evaluate(task, *task.splits().valid, {.bucket = 4}, 3).count, 3 * 2);
  EXPECT_EQ(evaluate(task, *task.splits().valid, {.bucket = 4}, 99).count, 10 * 2);
}

TEST(Evaluate, IsWithoutDropoutAndLeavesTheModelTraining) {
  auto task = tiny(0.5);
  const auto first = evaluate(task, *task.splits().valid, {.bucket = 4});
  EXPECT_EQ(evaluate(task, *task.splits().valid, {.bucket = 4}).loss, first.loss);
  EXPECT_TRUE(task.model().is_training());
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
