#include "longbow/ops/block_memory.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(BlockMemory, IsThatOfAGpu) {
  EXPECT_EQ(block_memory(at::ones({2})), 0);
  EXPECT_EQ(block_memory(at::empty({2}, at::kMeta)), 0);
}

}  // namespace
}  // namespace longbow
