#include "longbow/train/run/throughput.h"

#include <gtest/gtest.h>

namespace longbow {
namespace {

TEST(Throughput, GrowsWithTheBatch) {
  RunConfig config = {.task = "recall", .objective = "classification"};
  config.data.name = "recall";
  config.data.options = parse_yaml(
      "{train: 96, valid: 24, test: 24, keys: 6, values: 3, pairs: 3, queries: 3}", "options");
  config.model = parse_yaml("{width: 16, layers: 1}", "model");
  config.train.sampler.batch_size = 1;
  const double single = measured_throughput(config, at::kCPU);
  config.train.sampler.batch_size = 32;
  EXPECT_GT(single, 0);
  EXPECT_GT(measured_throughput(config, at::kCPU), 2 * single);
}

}  // namespace
}  // namespace longbow
