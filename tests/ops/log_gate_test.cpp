#include "longbow/ops/log_gate.h"

#include <ATen/ATen.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(LogGate, IsItsDefinition) {
  const auto x = random_normal({3, 5}, 1) * 4;
  EXPECT_NEAR_TENSOR(log_gate(x, 16), (1 / (1 + (-x).exp())).log() / 16, tolerance(at::kDouble));
}

TEST(LogGate, IsNotRounded) {
  const auto x = random_normal({3, 5}, 1).to(at::kBFloat16);
  EXPECT_TRUE(log_gate(x, 16).equal(log_gate(x.to(at::kFloat), 16)));
}

TEST(LogGate, IsAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("log_gate"), "");
}

}  // namespace
}  // namespace longbow
