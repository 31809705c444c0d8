#include "longbow/train/run/throughput.h"

#include <gtest/gtest.h>

namespace longbow {
namespace {

RunConfig tiny() {
  RunConfig config = {.task = "recall", .objective = "classification"};
  config.data.name = "recall";
  config.data.options = parse_yaml(
      "{train: 96, valid: 24, test: 24, keys: 6, values: 3, pairs: 3, queries: 3}", "options");
  config.model = parse_yaml("{width: 16, layers: 1}", "model");
  return config;
}

TEST(Throughput, AStepCostsMoreWhereTheTextIsLonger) {
  auto config = tiny();
  config.train.sampler.batch_size = 4;
  const auto near = measured_step(config, 32, 3, at::kCPU),
             far = measured_step(config, 1024, 3, at::kCPU);
  EXPECT_EQ(near.seconds.size(), 3u);
  EXPECT_GT(far.peak_bytes, 8 * near.peak_bytes);
  EXPECT_GT(far.seconds[1], near.seconds[1]);
}

TEST(Throughput, GrowsWithTheBatch) {
  auto config = tiny();
  config.train.sampler.batch_size = 1;
  const double single = measured_throughput(config, at::kCPU);
  config.train.sampler.batch_size = 32;
  EXPECT_GT(single, 0);
  EXPECT_GT(measured_throughput(config, at::kCPU), 2 * single);
}

}  // namespace
}  // namespace longbow
