#include "longbow/nn/layers/hippo.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(Hippo, ModesAreThoseOfTheNormalPart) {
  constexpr int64_t kStates = 8;
  auto a = at::zeros({kStates, kStates}, at::kDouble);
  for (int i = 0; i < kStates; ++i)
    for (int j = 0; j <= i; ++j)
      a[i][j] = i == j ? -(i + 1.0) : -std::sqrt((2.0 * i + 1) * (2.0 * j + 1));
  const auto q = (at::arange(kStates, at::kDouble) + 0.5).sqrt();
  const auto s = (a + at::outer(q, q)).to(at::kComplexDouble);
  const auto modes = hippo_modes(kStates);
  const auto values = at::complex(at::full({kStates / 2}, -0.5, at::kDouble), modes.frequencies);
  EXPECT_NEAR_TENSOR(at::view_as_real(s.matmul(modes.vectors)),
                     at::view_as_real(modes.vectors * values), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(at::real(modes.vectors.mH().matmul(modes.vectors)),
                     at::eye(kStates / 2, at::kDouble), tolerance(at::kDouble));
  EXPECT_GT(modes.frequencies.min().item<double>(), 0);
}

TEST(Hippo, RefusesAnOddNumberOfStates) {
  EXPECT_EQ(error_of([] { (void)hippo_modes(3); }), "hippo_modes: 3 states, not an even number");
}

}  // namespace
}  // namespace longbow
