#include "longbow/train/step/readback.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace longbow {
namespace {

TEST(Readback, HandsNumbersOnInOrderAndLeavesTablesOut) {
  Readback readback(at::kCPU);
  std::vector<double> seen;
  for (int i = 0; i < 3; ++i)
    readback.send({{"a", at::full({}, i, at::kInt)}, {"table", at::ones({2, 2})}},
                  [&](const Readback::Numbers& numbers) {
                    EXPECT_EQ(numbers.size(), 1u);
                    seen.push_back(numbers.at("a"));
                  });
  readback.flush();
  EXPECT_EQ(seen, (std::vector<double>{0, 1, 2}));
}

}  // namespace
}  // namespace longbow
