#include "longbow/ops/random_past.h"

#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/random_pasts.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

constexpr auto kExponential = RandomMap::exponential;

TEST(RandomPast, IsItsDefinition) {
  for (const int64_t n : {1, 7, 70})
    for (const int64_t behind : {0, 1, 6, 33, 100}) {
      const RandomInputs in(2, 3, n, n, 6, 5, 7);
      for (const auto& keep : {at::Tensor(), random_normal({2, n}, 9) > -0.5}) {
        const auto how = in.way(kExponential, keep);
        const auto want = random_past_results(in, how, behind, at::kDouble, dense_random_past),
                   op = random_past_results(in, how, behind, at::kDouble, random_past),
                   formula = random_past_results(in, how, behind, at::kDouble, random_past_formula);
        for (size_t i = 0; i < want.size(); ++i) {
          EXPECT_NEAR_TENSOR(op[i], want[i], (Tolerance{1e-9, 1e-9})) << i;
          EXPECT_NEAR_TENSOR(formula[i], want[i], (Tolerance{1e-9, 1e-9})) << i;
        }
      }
    }
}

TEST(RandomPast, WhatSeesNoKeyReadsZero) {
  const RandomInputs in(1, 2, 9, 9, 8, 3, 9);
  const auto part = random_past(in.q, in.k, in.v, in.way(kExponential), 4);
  EXPECT_NEAR_TENSOR(part.out.narrow(2, 0, 4), at::zeros({1, 2, 4, 3}, at::kDouble), kExact);
  EXPECT_TRUE(part.log_sum.narrow(2, 0, 4).isneginf().all().item<bool>());
  EXPECT_TRUE(part.log_sum.narrow(2, 4, 5).isfinite().all().item<bool>());
}

// A run that diverges must be seen to: that is not to see no key.
TEST(RandomPast, WhatIsNotANumberStaysSo) {
  const RandomInputs in(1, 2, 9, 9, 8, 3, 9);
  in.q[0][0][6][2] = NAN;
  const auto part = random_past(in.q, in.k, in.v, in.way(kExponential), 4);
  EXPECT_TRUE(part.out[0][0][6].isnan().all().item<bool>());
  EXPECT_TRUE(part.log_sum[0][0][6].isnan().all().item<bool>());
  EXPECT_EQ(part.log_sum.isnan().sum().item<int64_t>(), 1);
}

TEST(RandomPast, ProjectionsThatChangedBeforeTheBackwardPassAreAnError) {
  const RandomInputs in(2, 3, 9, 9, 6, 5, 7);
  const auto q = in.q.clone().requires_grad_();
  const auto part = random_past(q, in.k, in.v, in.way(kExponential), 2);
  in.omega.mul_(2);
  EXPECT_NE(error_of([&] { part.out.sum().backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(RandomPast, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("random_past"), "");
  EXPECT_EQ(missing_kernels("random_past_backward"), "");
  const auto x = at::empty({2, 3, 7, 8}, at::kMeta).requires_grad_(),
             v = at::empty({2, 3, 7, 4}, at::kMeta);
  const auto part = random_past(x, x, v, {.omega = at::empty({1, 5, 8}, at::kMeta)}, 2);
  EXPECT_EQ(part.out.sizes(), at::IntArrayRef({2, 3, 7, 4}));
  EXPECT_EQ(part.log_sum.sizes(), at::IntArrayRef({2, 3, 7, 1}));
  EXPECT_EQ(torch::autograd::grad({part.out.sum()}, {x})[0].sizes(), x.sizes());
}

TEST(RandomPast, RefusesWhatDoesNotFit) {
  const auto x = at::zeros({1, 2, 3, 4}), omega = at::zeros({1, 5, 4});
  EXPECT_EQ(error_of([&] { random_past(x, x, x, {.omega = omega}, -1); }),
            "random_past: behind is -1");
  EXPECT_EQ(error_of([&] {
              random_past(x, x, x, {.omega = omega, .least = at::ones({1, 3})}, 1);
            }),
            "random_past: takes the exponential map and no least");
  const auto y = at::zeros({1, 2, 3, 4}).requires_grad_();
  const auto out = random_past(y, y, y, {.omega = omega}, 1).out;
  EXPECT_EQ(error_of([&] { torch::autograd::grad({out.sum()}, {y}, {}, true, true); }),
            "random_past has no second derivative");
}

}  // namespace
}  // namespace longbow
