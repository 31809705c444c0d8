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

TEST(SiluTaps, MakesPartsOfLengthOne) {
  const auto z = random_normal({2, 7, 10}, 1), taps = random_normal({10, 4}, 2),
             bias = random_normal({10}, 3);
  const auto plain = silu_taps(z, taps, bias, false), got = silu_taps(z, taps, bias, false, {6, 3});
  for (const int64_t first : {0, 3}) {
    const auto part = plain.narrow(2, first, 3);
    EXPECT_NEAR_TENSOR(got.narrow(2, first, 3),
                       part / (part.norm(2, -1, true).square() + 1e-6).sqrt(),
                       (Tolerance{1e-8, 1e-8}));
  }
  EXPECT_TRUE(got.narrow(2, 6, 4).equal(plain.narrow(2, 6, 4)));
}

TEST(SiluTaps, BothDirectionsAtOnceAreTwoCalls) {
  const auto z = random_normal({2, 7, 3}, 1), taps = random_normal({3, 4}, 2),
             bias = random_normal({3}, 3);
  const auto [forth, back] = silu_taps_both(z, taps, bias);
  EXPECT_TRUE(forth.equal(silu_taps(z, taps, bias, false)));
  EXPECT_TRUE(back.equal(silu_taps(z, taps, bias, true)));
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
  EXPECT_EQ(missing_kernels("silu_taps_both"), "");
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
  EXPECT_EQ(error_of([&] {
              (void)silu_taps(z, random_normal({3, 4}, 2), random_normal({3}, 3), false, {3, 2});
            }),
            "silu_taps: z is [2, 7, 3] but 3 channels stand in parts of 2");
}

}  // namespace
}  // namespace longbow
