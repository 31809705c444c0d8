#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "longbow/ops/block_memory.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(BlockMemoryCuda, IsMoreThanABlockHasUnasked) {
  EXPECT_GE(block_memory(at::ones({2}, "cuda:0")), 64 << 10);  // all from sm_75 on
}

TEST(BlockMemoryCuda, IsNoOperatorToAProfile) {
  static int seen;
  seen = 0;
  const auto x = at::ones({2}, "cuda:0");
  at::addThreadLocalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
        ++seen;
        return nullptr;
      }));
  block_memory(x);
  EXPECT_EQ(seen, 0);
  const auto y = x + 1;
  at::clearThreadLocalCallbacks();
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace longbow
