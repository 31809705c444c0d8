#include "longbow/data/readers/torch_permutation.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

namespace longbow {
namespace {

TEST(TorchPermutation, IsThatOfTorch) {
  for (const auto& [count, seed] :
       {std::pair<int64_t, uint64_t>{200000, 42}, {10, 0}, {7, 1}, {1, 5}}) {
    const auto expected =
        at::randperm(count, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kLong));
    const auto* order = expected.const_data_ptr<int64_t>();
    EXPECT_EQ(torch_permutation(count, seed), std::vector<int64_t>(order, order + count));
  }
}

TEST(TorchPermutation, TakesAsManyAsTorchDrawsAlike) {
  EXPECT_TRUE(torch_permutation(0, 42).empty());
  EXPECT_THROW(torch_permutation(-1, 42), std::invalid_argument);
  EXPECT_THROW(torch_permutation(int64_t{1} << 40, 42), std::invalid_argument);
}

}  // namespace
}  // namespace longbow
