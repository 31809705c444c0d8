#include "longbow/nn/layers/rms_norm.h"

#include <ATen/ATen.h>

#include <cmath>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(RmsNorm, DividesByTheRootMeanSquareOfEachGroup) {
  RmsNorm norm(6, 0.5, 2);
  norm.to(at::kDouble);
  const at::NoGradGuard no_grad;
  norm.weight.copy_(at::tensor({1., 2., 3., 4., 5., 6.}));
  const auto x = at::tensor({1., 2., 3., 0., 0., 6.}, at::kDouble).view({1, 1, 6});
  const double first = std::sqrt(14. / 3 + 0.5), second = std::sqrt(12.5);
  EXPECT_NEAR_TENSOR(norm(x),
                     at::tensor({1 / first, 4 / first, 9 / first, 0., 0., 36 / second}, at::kDouble)
                         .view({1, 1, 6}),
                     tolerance(at::kDouble));
}

TEST(RmsNorm, TakesTheMeanOfHalfTypesInFloat32) {
  RmsNorm norm(512);
  norm.to(at::kHalf);
  const auto x = at::full({1, 512}, 300, at::kHalf);  // whose squares float16 cannot hold
  EXPECT_NEAR_TENSOR(norm(x).detach(), at::ones({1, 512}), (Tolerance{.absolute = 1e-3}));
  EXPECT_EQ(norm(x).scalar_type(), at::kHalf);
}

TEST(RmsNorm, RefusesGroupsThatDoNotDivideTheWidth) {
  EXPECT_EQ(error_of([] { (void)RmsNorm(6, 1e-5, 4); }), "rms_norm: 6 channels in 4 groups");
}

}  // namespace
}  // namespace longbow
