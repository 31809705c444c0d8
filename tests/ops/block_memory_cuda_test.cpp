#include <ATen/ATen.h>

#include "longbow/ops/block_memory.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(BlockMemoryCuda, IsMoreThanABlockHasUnasked) {
  EXPECT_GE(block_memory(at::ones({2}, "cuda:0")), 64 << 10);  // all from sm_75 on
}

}  // namespace
}  // namespace longbow
