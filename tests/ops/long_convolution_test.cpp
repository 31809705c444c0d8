#include "longbow/ops/long_convolution.h"

#include <ATen/ATen.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

constexpr int64_t kTokens = 7, kChannels = 3;

struct Given {
  Tensor u = random_normal({2, kTokens, kChannels}, 1),
         past = random_normal({kTokens, kChannels}, 2),
         ahead = random_normal({kTokens, kChannels}, 3), skip = random_normal({kChannels}, 4);
};

// Pair by pair.
Tensor summed(const Given& given) {
  auto y = given.skip * given.u;
  for (int64_t t = 0; t < kTokens; ++t)
    for (int64_t s = 0; s < kTokens; ++s) {
      if (s > t && !given.ahead.defined()) continue;
      const auto tap = s <= t ? given.past[t - s] : given.ahead[s - t - 1];
      y.select(1, t).add_(tap * given.u.select(1, s));
    }
  return y;
}

TEST(LongConvolution, IsItsDefinition) {
  for (const bool both : {false, true}) {
    Given given;
    if (!both) given.ahead = Tensor();
    EXPECT_NEAR_TENSOR(long_convolution(given.u, given.past, given.ahead, given.skip),
                       summed(given), tolerance(at::kDouble));
  }
}

TEST(LongConvolution, GradientsAreThoseOfDifferences) {
  const Given given;
  for (const auto& t : {given.u, given.past, given.ahead, given.skip}) t.requires_grad_();
  EXPECT_TRUE(gradcheck(
      [&] { return long_convolution(given.u, given.past, given.ahead, given.skip); },
      {{"u", given.u}, {"past", given.past}, {"ahead", given.ahead}, {"skip", given.skip}}));
}

TEST(LongConvolution, IsAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("long_convolution"), "");
}

TEST(LongConvolution, RefusesOtherShapes) {
  const Given given;
  const auto error = [&](const Tensor& past, const Tensor& ahead, const Tensor& skip) {
    return error_of([&] { (void)long_convolution(given.u, past, ahead, skip); });
  };
  EXPECT_EQ(error(at::zeros({6, 3}), {}, given.skip),
            "long_convolution: u is [2, 7, 3] but past is [6, 3] and ahead []");
  EXPECT_EQ(error(given.past, at::zeros({7, 1}), given.skip),
            "long_convolution: u is [2, 7, 3] but past is [7, 3] and ahead [7, 1]");
  EXPECT_EQ(error(given.past, {}, at::zeros({4})),
            "long_convolution: u is [2, 7, 3] but skip is [4]");
}

}  // namespace
}  // namespace longbow
