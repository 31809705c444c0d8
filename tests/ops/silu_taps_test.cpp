#include "longbow/ops/silu_taps.h"

#include <ATen/ATen.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(SiluTaps, IsItsDefinition) {
  const auto z = random_normal({2, 7, 3}, 1), taps = random_normal({3, 4}, 2),
             bias = random_normal({3}, 3);
  for (const bool reversed : {false, true}) {
    auto sum = bias.expand({2, 7, 3}).clone();
    for (int64_t t = 0; t < 7; ++t)
      for (int64_t j = 0; j < 4; ++j) {
        const int64_t from = reversed ? t - j + 3 : t + j - 3;
        if (from >= 0 && from < 7) sum.select(1, t).add_(z.select(1, from) * taps.select(1, j));
      }
    EXPECT_NEAR_TENSOR(silu_taps(z, taps, bias, reversed), sum * at::sigmoid(sum),
                       tolerance(at::kDouble));
  }
}

TEST(SiluTaps, RoundsOnce) {
  const auto z = random_normal({2, 7, 3}, 1).to(at::kBFloat16);
  const auto taps = random_normal({3, 4}, 2).to(at::kFloat),
             bias = random_normal({3}, 3).to(at::kFloat);
  EXPECT_TRUE(silu_taps(z, taps, bias, false)
                  .equal(silu_taps(z.to(at::kFloat), taps, bias, false).to(at::kBFloat16)));
}

TEST(SiluTaps, IsAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("silu_taps"), "");
}

TEST(SiluTaps, RefusesOtherShapes) {
  const auto z = random_normal({2, 7, 3}, 1);
  EXPECT_EQ(error_of([&] {
              (void)silu_taps(z, random_normal({2, 4}, 2), random_normal({2}, 3), false);
            }),
            "silu_taps: z is [2, 7, 3] but taps are [2, 4]");
  EXPECT_EQ(error_of([&] {
              (void)silu_taps(z, random_normal({3, 4}, 2), random_normal({2}, 3), false);
            }),
            "silu_taps: taps are [3, 4] but bias is [2]");
}

}  // namespace
}  // namespace longbow
