#include "longbow/train/run/dry_run.h"

#include <gtest/gtest.h>

#include "longbow/train/run/run_task.h"

namespace longbow {
namespace {

RunConfig tiny() {
  RunConfig config = {.task = "recall", .objective = "classification"};
  config.data.name = "recall";
  config.data.options = parse_yaml(
      "{train: 30, valid: 4, test: 4, keys: 6, values: 3, pairs: 3, queries: 3}", "options");
  config.model = parse_yaml("{width: 16, layers: 1}", "model");
  config.train.sampler = {.batch_size = 8, .bucket = 3};
  return config;
}

TEST(DryRun, ListsEveryParameterOnceAndEveryModuleWithAllBelowIt) {
  const auto run = dry_run(tiny(), at::kCPU);
  int64_t parameters = 0, tops = 0;
  for (const auto& row : run.parameters) {
    int64_t product = 1;
    for (const auto size : row.shape) product *= size;
    EXPECT_EQ(row.count, product) << row.name;
    parameters += row.count;
  }
  for (const auto& row : run.modules)
    if (row.name.find('.') == std::string::npos) tops += row.count;
  EXPECT_EQ(parameters, run.total);
  EXPECT_EQ(tops, run.total) << "every parameter of this model is inside a module";
  EXPECT_EQ(run.total, make_task(tiny(), at::kCPU)->parameter_count());
}

TEST(DryRun, CountsTheMemoryOfEachPart) {
  auto config = tiny();
  const auto plain = dry_run(config, at::kCPU);
  const auto of_one = static_cast<double>(4 * plain.total);
  EXPECT_EQ(plain.weights, of_one);
  EXPECT_EQ(plain.gradients, of_one);
  EXPECT_GE(plain.optimizer, 2 * of_one);
  EXPECT_LT(plain.optimizer, 2.2 * of_one);
  EXPECT_EQ(plain.average, 0);
  EXPECT_EQ(plain.samples, 8);
  EXPECT_GT(plain.length, 0);
  EXPECT_NEAR(plain.loss, std::log(3), 0.3) << "three values, nothing learnt";

  config.train.average.ema = 0.99;
  config.train.precision = Precision::bf16;
  const auto averaged = dry_run(config, at::kCPU);
  EXPECT_EQ(averaged.average, of_one);
  EXPECT_EQ(averaged.weights, 1.5 * of_one);
  EXPECT_EQ(averaged.gradients, 1.5 * of_one);

  config = tiny();
  config.train.sampler.batch_size = 24;
  EXPECT_GT(dry_run(config, at::kCPU).activations, 2 * plain.activations);
}

}  // namespace
}  // namespace longbow
