#include "longbow/data/readers/permutation.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <numeric>

namespace longbow {
namespace {

TEST(TorchPermutation, IsThatOfLibTorch) {
  for (const int64_t count : {0, 1, 2, 10, 50000, 200000}) {
    const auto wanted = at::randperm(count, at::detail::createCPUGenerator(42), at::kLong);
    const auto got = torch_permutation(count, 42);
    ASSERT_EQ(std::ssize(got), count);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), wanted.data_ptr<int64_t>())) << count;
  }
  EXPECT_EQ(torch_permutation(10, 42), (std::vector<int64_t>{2, 6, 1, 8, 4, 5, 0, 9, 3, 7}))
      << "as in the documentation of many a split";
  EXPECT_NE(torch_permutation(10, 43), torch_permutation(10, 42));
}

}  // namespace
}  // namespace longbow
