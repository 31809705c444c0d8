#include "longbow/train/step/feed.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/train/feeding.h"

namespace longbow {
namespace {

TEST(Feed, GivesTheBatchesOfTheSamplerAndGoesOnAnywhere) {
  const auto list = numbered_samples();
  Feed feed(list, order_of(*list), {.threads = 2}, 0, at::kCPU);
  EXPECT_FALSE(feed.resident()) << "there is no other memory to keep it in";
  expect_order(feed, *list);
}

}  // namespace
}  // namespace longbow
