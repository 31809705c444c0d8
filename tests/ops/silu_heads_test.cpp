#include "longbow/ops/silu_heads.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(SiluHeads, AreScaledCopiesOfTheGate) {
  const auto z = random_normal({2, 5, 4}, 1), gain = random_normal({3, 4}, 2),
             offset = random_normal({3, 4}, 3);
  const auto found = silu_heads(z, gain, offset);
  ASSERT_EQ(found.size(), 3);
  for (const int64_t r : {0, 1, 2})
    EXPECT_NEAR_TENSOR(found[static_cast<size_t>(r)], z * z.sigmoid() * gain[r] + offset[r],
                       tolerance(at::kDouble));
}

TEST(SiluHeads, GradientsAreThoseOfDifferences) {
  const auto z = random_normal({2, 3, 4}, 1).requires_grad_(),
             gain = random_normal({2, 4}, 2).requires_grad_(),
             offset = random_normal({2, 4}, 3).requires_grad_();
  EXPECT_TRUE(gradcheck(
      [&] {
        const auto found = silu_heads(z, gain, offset);
        return found[0].exp() * found[1];
      },
      {{"z", z}, {"gain", gain}, {"offset", offset}}));
}

TEST(SiluHeads, AreRegistered) {
  EXPECT_EQ(missing_kernels("silu_heads"), "");
  EXPECT_EQ(missing_kernels("silu_heads_backward"), "");
}

TEST(SiluHeads, NameWhatDoesNotFit) {
  EXPECT_NE(error_of([] {
              silu_heads(at::zeros({2, 5, 4}), at::zeros({2, 5}), at::zeros({2, 5}));
            }).find("silu_heads: z is [2, 5, 4] Float, gain [2, 5] Float, offset [2, 5] Float"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
