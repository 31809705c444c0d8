#include "longbow/ops/mode_convolution.h"

#include <ATen/ATen.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

constexpr int64_t kTokens = 9, kChannels = 3, kModes = 2;

struct Given {
  Tensor u = random_normal({2, kTokens, kChannels}, 1), rate, weight,
         skip = random_normal({kChannels}, 2);
  explicit Given(int64_t directions)
      : rate(random_normal({directions, kChannels, kModes, 2}, 3)),
        weight(random_normal({directions, kChannels, kModes, 2}, 4)) {
    rate.select(-1, 0).abs_().neg_();
  }
};

// Token by token.
Tensor recurrence(const Given& given, FirstLag first) {
  auto y = given.skip * given.u;
  for (int64_t d = 0; d < given.rate.size(0); ++d) {
    const auto rate = at::view_as_complex(given.rate[d]),
               weight = at::view_as_complex(given.weight[d]);
    auto state = at::zeros({2, kChannels, kModes}, at::kComplexDouble);
    for (int64_t i = 0; i < kTokens; ++i) {
      const int64_t t = d == 0 ? i : kTokens - 1 - i;
      const auto before = state;
      state = rate.exp() * state + given.u.select(1, t).unsqueeze(-1);
      const auto& read = d == 1 && first == FirstLag::one ? before : state;
      y.select(1, t).add_(at::real(weight * read).sum(-1));
    }
  }
  return y;
}

TEST(ModeConvolution, IsTheRecurrence) {
  for (const int64_t directions : {1, 2})
    for (const auto first : {FirstLag::zero, FirstLag::one}) {
      const Given given(directions);
      const auto y = recurrence(given, first);
      for (const auto& [activation, want] : {std::pair{ModeActivation::none, y},
                                             {ModeActivation::gelu, at::gelu(y)},
                                             {ModeActivation::silu, at::silu(y)}})
        EXPECT_NEAR_TENSOR(
            mode_convolution(given.u, given.rate, given.weight, given.skip, first, activation),
            want, tolerance(at::kDouble));
    }
}

TEST(ModeConvolution, RoundsOnce) {
  const Given given(2);
  const auto rate = given.rate.to(at::kFloat), weight = given.weight.to(at::kFloat),
             skip = given.skip.to(at::kFloat);
  const auto half = given.u.to(at::kBFloat16);
  const auto of = [&](const Tensor& u) {
    return mode_convolution(u, rate, weight, skip, FirstLag::one, ModeActivation::gelu);
  };
  EXPECT_TRUE(of(half).equal(of(half.to(at::kFloat)).to(at::kBFloat16)));
}

TEST(ModeConvolution, GradientsAreThoseOfDifferences) {
  for (const int64_t directions : {1, 2}) {
    const Given given(directions);
    for (const auto& t : {given.u, given.rate, given.weight, given.skip}) t.requires_grad_();
    EXPECT_TRUE(gradcheck(
        [&] {
          return mode_convolution(given.u, given.rate, given.weight, given.skip, FirstLag::one,
                                  ModeActivation::silu);
        },
        {{"u", given.u}, {"rate", given.rate}, {"weight", given.weight}, {"skip", given.skip}}));
  }
}

TEST(ModeConvolution, IsAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("mode_convolution"), "");
}

TEST(ModeConvolution, RefusesOtherShapes) {
  const Given given(1);
  const auto error = [&](const Tensor& rate, const Tensor& weight, const Tensor& skip, int first) {
    return error_of([&] {
      (void)mode_convolution(given.u, rate, weight, skip, static_cast<FirstLag>(first),
                             ModeActivation::none);
    });
  };
  EXPECT_EQ(error(at::zeros({3, 3, 2, 2}), given.weight, given.skip, 0),
            "mode_convolution: u is [2, 9, 3], rate [3, 3, 2, 2], weight [1, 3, 2, 2]");
  EXPECT_EQ(error(given.rate, given.weight, at::zeros({4}), 0),
            "mode_convolution: u is [2, 9, 3] but skip is [4]");
  EXPECT_EQ(error(given.rate, given.weight, given.skip, 2),
            "mode_convolution: first is 2, but later tokens begin at lag 0 or 1");
}

}  // namespace
}  // namespace longbow
