#include "tests/ops/running_weights.h"

#include <gtest/gtest.h>

#include "tests/ops/registered.h"

namespace longbow {
namespace {

TEST(RunningWeights, AreTheirDefinition) {
  for (const int64_t n : {1, 5, 70})
    for (const bool masked : {false, true}) {
      const auto keep = masked ? random_normal({2, n}, 4) > 0 : at::Tensor();
      const auto results = [&](const auto& of) {
        return running_weights_results(random_normal({2, n, 7}, 1) * 2, random_normal({2, n, 9}, 2),
                                       keep, at::kDouble, of);
      };
      const auto got = results(running_weights), want = results(dense_running_weights);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << n << " " << i;
    }
}

TEST(RunningWeights, HaveASecondDerivative) {
  const auto logits = random_normal({1, 6, 2}, 1).requires_grad_();
  const auto second = [&](const auto& of) {
    const auto found = of(logits, at::Tensor(), 1.5);
    const auto first =
        torch::autograd::grad({(found.weights * found.again).sum() + found.sums.square().sum()},
                              {logits}, {}, true, true);
    return torch::autograd::grad({first[0].square().sum()}, {logits})[0];
  };
  EXPECT_NEAR_TENSOR(second(running_weights), second(dense_running_weights),
                     (Tolerance{1e-9, 1e-9}));
}

TEST(RunningWeights, AMaskThatChangedBeforeTheBackwardPassIsAnError) {
  const auto logits = random_normal({2, 5, 3}, 1).requires_grad_();
  const auto keep = at::ones({2, 5}, at::kBool);
  const auto out = running_weights(logits, keep, 1.5).weights;
  keep.logical_not_();
  EXPECT_NE(error_of([&] { out.sum().backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(RunningWeights, AreAnOperatorOfEveryKind) {
  EXPECT_EQ(missing_kernels("running_weights"), "");
  EXPECT_EQ(missing_kernels("running_weights_backward"), "");
}

TEST(RunningWeights, RefuseOtherShapes) {
  EXPECT_EQ(error_of([] {
              (void)running_weights(at::zeros({2, 3}), {}, 1);
            }),
            "running_weights: logits are [2, 3] Float");
  EXPECT_EQ(error_of([] {
              (void)running_weights(at::zeros({2, 3, 4}), at::ones({2, 2}, at::kBool), 1);
            }),
            "running_weights: logits are [2, 3, 4] but keep is [2, 2]");
}

}  // namespace
}  // namespace longbow
