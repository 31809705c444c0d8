#include "longbow/ops/divided_softmax.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// Number by number; n is written out.
Tensor dense(const Tensor& scores, const Tensor& n) {
  const auto e = (scores / n).exp();
  return e / (e.sum(-1, true) * n);
}

TEST(DividedSoftmax, IsItsDefinition) {
  const auto scores = random_normal({2, 3, 5, 7}, 1).requires_grad_(),
             divisor = random_normal({2, 3, 5, 7}, 2).abs().requires_grad_(),
             rows = random_normal({2, 1, 5, 1}, 3).abs().requires_grad_();
  for (const auto& by : {divisor, rows}) {
    const auto n = at::maximum(by, at::full({}, 0.3, by.options()));
    const auto got = divided_softmax(scores, by, 0.3, 1.7), want = dense(scores * 1.7, n);
    EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
    const auto g = random_normal({2, 3, 5, 7}, 4);
    const auto slopes = torch::autograd::grad({got}, {scores, by}, {g}),
               want_slopes = torch::autograd::grad({want}, {scores, by}, {g});
    for (size_t i = 0; i < slopes.size(); ++i)
      EXPECT_NEAR_TENSOR(slopes[i], want_slopes[i], tolerance(at::kDouble)) << i;
  }
  EXPECT_NEAR_TENSOR(divided_softmax(scores, {}, 0), scores.softmax(-1), tolerance(at::kDouble));
}

TEST(DividedSoftmax, HasASecondDerivative) {
  const auto scores = random_normal({1, 2, 3, 4}, 1).requires_grad_(),
             by = (random_normal({1, 2, 3, 4}, 2).abs() + 0.5).requires_grad_();
  const auto second = [&](const Tensor& y) {
    const auto first = torch::autograd::grad({y.square().sum()}, {scores, by}, {}, true, true);
    return torch::autograd::grad({first[0].square().sum() + first[1].square().sum()}, {scores, by});
  };
  const auto got = second(divided_softmax(scores, by, 0.1)), want = second(dense(scores, by));
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{1e-9, 1e-9})) << i;
}

TEST(DividedSoftmax, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("divided_softmax"), "");
  EXPECT_EQ(missing_kernels("divided_softmax_backward"), "");
  const auto scores = at::empty({2, 3, 4, 8}, at::kMeta).requires_grad_(),
             by = at::empty({2, 3, 4, 8}, at::kMeta).requires_grad_();
  const auto slopes = torch::autograd::grad({divided_softmax(scores, by, 0).sum()}, {scores, by});
  for (const auto& slope : slopes) EXPECT_EQ(slope.sizes(), scores.sizes());
}

TEST(DividedSoftmax, RefusesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              divided_softmax(at::zeros({2, 3}), {}, 0);
            }),
            "divided_softmax: scores are [2, 3] Float");
  EXPECT_EQ(error_of([] {
              divided_softmax(at::zeros({1, 2, 3, 4}), at::zeros({1, 2, 2, 4}), 0);
            }),
            "divided_softmax: scores are [1, 2, 3, 4], the divisor [1, 2, 2, 4] Float");
}

}  // namespace
}  // namespace longbow
