#include "longbow/ops/time_steps.h"

#include <ATen/ATen.h>

#include <limits>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(TimeSteps, AreTheirDefinition) {
  const auto dt = random_normal({2, 7, 3}, 1), bias = random_normal({3}, 2),
             rate = random_normal({3}, 3);
  const auto step = (1 + (dt + bias).exp()).log();
  const auto all = time_steps(dt, bias, rate, {}, 0, std::numeric_limits<double>::infinity());
  EXPECT_NEAR_TENSOR(all.step, step, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(all.log_decay, -rate.exp() * step, tolerance(at::kDouble));
  const auto keep = random_normal({2, 7}, 4) > 0;
  const auto some = time_steps(dt, bias, rate, keep, 0.4, 1.1);
  const auto want = step.clamp_min(0.4).clamp_max(1.1) * keep.unsqueeze(-1);
  EXPECT_NEAR_TENSOR(some.step, want, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(some.log_decay, -rate.exp() * want, tolerance(at::kDouble));
}

TEST(TimeSteps, AreFloat32OfHalfTypes) {
  const auto dt = random_normal({2, 7, 3}, 1).to(at::kBFloat16),
             bias = random_normal({3}, 2).to(at::kBFloat16);
  const auto found = time_steps(dt, bias, bias, {}, 0, 1);
  EXPECT_EQ(found.step.scalar_type(), at::kFloat);
  EXPECT_TRUE(found.step.equal(
      time_steps(dt.to(at::kFloat), bias.to(at::kFloat), bias.to(at::kFloat), {}, 0, 1).step));
}

TEST(TimeSteps, AreAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("time_steps"), "");
}

TEST(TimeSteps, RefuseOtherShapes) {
  const auto dt = random_normal({2, 7, 3}, 1), bias = random_normal({3}, 2);
  EXPECT_EQ(error_of([&] { (void)time_steps(dt, random_normal({4}, 1), bias, {}, 0, 1); }),
            "time_steps: dt is [2, 7, 3] but bias is [4] and log_rate [3]");
  EXPECT_EQ(error_of([&] {
              (void)time_steps(dt, bias, bias, at::ones({2, 6}), 0, 1);
            }),
            "time_steps: dt is [2, 7, 3] but keep is [2, 6]");
}

}  // namespace
}  // namespace longbow
