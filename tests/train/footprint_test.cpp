#include "longbow/train/run/footprint.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "longbow/train/run/dry_run.h"

namespace longbow {
namespace {

RunConfig of_model(const std::string& model) {
  RunConfig config = {.task = "recall", .objective = "classification"};
  config.data.name = "recall";
  config.data.options = parse_yaml(
      "{train: 30, valid: 4, test: 4, keys: 6, values: 3, pairs: 3, queries: 3}", "options");
  config.model = parse_yaml(model, "model");
  config.train.sampler = {.batch_size = 8, .bucket = 3};
  return config;
}

TEST(Footprint, CountsWhatTheConfigAloneTells) {
  const auto least = least_footprint(of_model("{width: 1000, layers: 3, max_length: 10}"));
  EXPECT_EQ(least.weights, 4 * (3 * 8e6 + 10e3));
  EXPECT_EQ(least.gradients, least.weights);
  EXPECT_EQ(least.optimizer, 2 * least.weights);
  EXPECT_EQ(least.activations, 4 * 8 * 1000);
  const auto inner = of_model("{width: 1000, layers: 3, block: {feed_forward: 10}}");
  EXPECT_EQ(least_footprint(inner).weights, 4 * 3 * 2e4);
  const auto pair = of_model("{encoder: {width: 100, layers: 1}, decoder: {width: 10, layers: 1}}");
  EXPECT_EQ(least_footprint(pair).weights, 4 * (8e4 + 8e2));
}

TEST(Footprint, OfEveryOptimiserIsItsOwn) {
  auto config = of_model("{width: 1000, layers: 1}");
  config.train.optimizer.optimizer = Method::sgd;
  EXPECT_EQ(least_footprint(config).optimizer, 0);
  config.train.optimizer.sgd.momentum = 0.9;
  EXPECT_EQ(least_footprint(config).optimizer, 4 * 8e6);
}

// A training that fits must never be refused.
TEST(Footprint, IsNeverMoreThanADryRunFinds) {
  for (const auto* model :
       {"{width: 16, layers: 1}", "{width: 16, layers: 3, attention: fnet}",
        "{width: 16, block: {feed_forward: 64, feed_forward_kind: sparse}}",
        "{width: 16, block: {feed_forward_kind: none}}", "{width: 16, max_length: 500}",
        "{width: 16, max_length: 500, positions: rotary}",
        "{width: 16, block: {residual: reversible}}"}) {
    SCOPED_TRACE(model);
    for (const auto method : {Method::adamw, Method::sgd, Method::adafactor, Method::rmsprop,
                              Method::adagrad, Method::nadam, Method::radam}) {
      auto config = of_model(model);
      config.train.optimizer.optimizer = method;
      const auto least = least_footprint(config);
      const auto found = dry_run(config, at::kCPU);
      EXPECT_LE(least.weights, found.weights);
      EXPECT_LE(least.gradients, found.gradients);
      EXPECT_LE(least.optimizer, found.optimizer);
      EXPECT_LE(least.activations, found.activations);
    }
  }
}

TEST(Footprint, ThatDoesNotFitIsRefusedBeforeAnythingIsAllocated) {
  auto config = of_model("{width: 65536, layers: 1024}");
  try {
    check_footprint(config, 8e9);
    FAIL();
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_STREQ(error.what_without_backtrace(),
                 "not enough memory: training takes at least 512 TiB (weights 128 TiB, gradients "
                 "128 TiB, optimiser 256 TiB, activations 2 MiB), 7.45 GiB are available");
  }
  EXPECT_THROW(dry_run(config, at::kCPU), c10::OutOfMemoryError);
  EXPECT_NO_THROW(check_footprint(of_model("{width: 16}"), 8e9));
}

}  // namespace
}  // namespace longbow
