#include "longbow/kernels/feature_product.h"

#include <gtest/gtest.h>

namespace longbow::kernels {
namespace {

TEST(FeatureProductKernel, PadsToTheNextShapeThatThereIs) {
  const auto shape = [](int64_t width, bool turned, int64_t depth) {
    const auto found = feature_shape(width, turned, depth);
    return std::pair{found.features, found.depth};
  };
  EXPECT_EQ(shape(8, false, 8), (std::pair<int64_t, int64_t>{32, 32}));
  EXPECT_EQ(shape(32, true, 24), (std::pair<int64_t, int64_t>{64, 32}));
  EXPECT_EQ(shape(40, false, 32), (std::pair<int64_t, int64_t>{64, 64}));
  EXPECT_EQ(shape(32, false, 40), (std::pair<int64_t, int64_t>{64, 64}));
  EXPECT_EQ(shape(64, true, 40), (std::pair<int64_t, int64_t>{128, 64}));
  EXPECT_EQ(shape(104, false, 64), (std::pair<int64_t, int64_t>{128, 64}));
  EXPECT_EQ(shape(256, false, 64), (std::pair<int64_t, int64_t>{256, 64}));
  EXPECT_EQ(shape(24, false, 72), (std::pair<int64_t, int64_t>{128, 128}));
  EXPECT_EQ(shape(128, true, 128), (std::pair<int64_t, int64_t>{256, 128}));
  for (const auto& [width, depth] : {std::pair{12, 64}, {64, 12}, {264, 64}, {136, 128}, {64, 136}})
    EXPECT_EQ(shape(width, false, depth), (std::pair<int64_t, int64_t>{0, 0}));
}

// 132 multiprocessors hold 528 blocks, four each.
TEST(FeatureProductKernel, SpansFillAGpuOnce) {
  EXPECT_EQ(feature_span(8192, 64, 4), 1024);       // 512 blocks
  EXPECT_EQ(feature_span(8192, 64, 1, 128), 4096);  // 128 blocks
  EXPECT_EQ(feature_span(1, 1, 4), 64);
  EXPECT_EQ(feature_span(100000, 10000, 4), (100000 + 63) / 64 * 64);
  for (const int64_t tokens : {1, 63, 64, 65, 1000, 8192, 100000})
    for (const int64_t groups : {1, 7, 64, 300, 5000}) {
      const int64_t span = feature_span(tokens, groups, 3);
      EXPECT_EQ(span % 64, 0);
      EXPECT_LT(span, tokens + 64);
    }
}

}  // namespace
}  // namespace longbow::kernels
