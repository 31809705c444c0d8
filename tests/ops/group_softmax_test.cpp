#include "longbow/ops/group_softmax.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/philox.h"
#include "tests/ops/group_softmaxes.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

TEST(GroupSoftmax, IsASoftmaxWhoseWeightsAreDropped) {
  for (const double rate : {0.0, 0.4}) {
    const GroupProblem p = {.group = 6, .rate = rate};
    const auto scores = (random_normal({2, 5, 18}, 1) * 3).requires_grad_();
    const auto noise =
        philox_uniform(at::tensor({7, 3}, at::kLong), hash_name("weights"), {2, p.count + 4, 18})
            .narrow(1, 2, p.count);
    const auto want =
        scores.unflatten(2, {3, 6}).softmax(-1).flatten(2).masked_fill(noise < rate, 0);
    const auto slope = torch::autograd::grad({want}, {scores}, {random_normal({2, 5, 18}, 2) * 3});
    const auto got = group_results(p, at::kDouble, at::kCPU);
    EXPECT_NEAR_TENSOR(got[0], want, tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(got[1], want, tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(got[2], slope[0], tolerance(at::kDouble));
  }
}

TEST(GroupSoftmax, IsRegistered) {
  EXPECT_EQ(missing_kernels("group_softmax_", /*differentiable=*/false), "");
}

TEST(GroupSoftmax, NamesArgumentsThatDoNotFit) {
  auto scores = at::zeros({2, 3, 10}), gradient = at::zeros({2, 3, 5});
  EXPECT_NE(error_of([&] {
              group_softmax_(scores, 4);
            }).find("group_softmax_: scores are [2, 3, 10] in groups of 4"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              group_softmax_backward_(scores, gradient, 5);
            }).find("group_softmax_: scores are [2, 3, 10], the gradient [2, 3, 5]"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
