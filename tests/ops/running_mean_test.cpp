#include "longbow/ops/running_mean.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/ops/running_means.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

struct Inputs {
  Tensor gate, k, v;
  Inputs(int64_t batch, int64_t tokens, int64_t channels, double steep = 2)
      : gate(random_normal({batch, tokens, channels}, 1).requires_grad_()),
        k((random_normal({batch, tokens, channels}, 2) * steep).requires_grad_()),
        v(random_normal({batch, tokens, channels}, 3).requires_grad_()) {}
  std::vector<Tensor> all() const { return {gate, k, v}; }
};

TEST(RunningMean, IsItsDefinition) {
  for (const int64_t n : {1, 5, 70})
    for (const bool masked : {false, true}) {
      const Inputs in(2, n, 3);
      const auto keep = masked ? random_normal({2, n}, 4) > 0 : Tensor();
      const auto got = running_mean(in.gate, in.k, in.v, keep),
                 want = dense_running_mean(in.gate, in.k, in.v, keep);
      EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
      const auto g = random_normal({2, n, 3}, 5);
      const auto slopes = torch::autograd::grad({got}, in.all(), {g}),
                 want_slopes = torch::autograd::grad({want}, in.all(), {g});
      for (size_t i = 0; i < slopes.size(); ++i)
        EXPECT_NEAR_TENSOR(slopes[i], want_slopes[i], (Tolerance{1e-9, 1e-9})) << n << " " << i;
    }
}

TEST(RunningMean, AMaskThatChangedBeforeTheBackwardPassIsAnError) {
  const Inputs in(2, 5, 3);
  const auto keep = at::ones({2, 5}, at::kBool);
  const auto out = running_mean(in.gate, in.k, in.v, keep);
  keep.logical_not_();
  EXPECT_NE(error_of([&] { out.sum().backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(RunningMean, AnEmptySequenceStaysEmpty) {
  const Inputs in(2, 0, 3);
  const auto y = running_mean(in.gate, in.k, in.v);
  EXPECT_EQ(y.sizes(), in.v.sizes());
  for (const auto& slope : torch::autograd::grad({y.sum()}, in.all()))
    EXPECT_EQ(slope.sizes(), in.v.sizes());
}

TEST(RunningMean, LargeKeysCancel) {
  const Inputs in(1, 70, 4, 1000);
  const auto y = running_mean(in.gate, in.k, in.v);
  EXPECT_NEAR_TENSOR(y, dense_running_mean(in.gate, in.k, in.v, {}), tolerance(at::kDouble));
  for (const auto& slope : torch::autograd::grad({y.sum()}, in.all()))
    EXPECT_TRUE(slope.isfinite().all().item<bool>());
}

TEST(RunningMean, HasASecondDerivative) {
  const Inputs in(1, 6, 2);
  const auto second = [&](const Tensor& y) {
    const auto first = torch::autograd::grad({y.square().sum()}, in.all(), {}, true, true);
    return torch::autograd::grad({first[1].square().sum() + first[2].square().sum()}, in.all());
  };
  const auto got = second(running_mean(in.gate, in.k, in.v)),
             want = second(dense_running_mean(in.gate, in.k, in.v, {}));
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{1e-9, 1e-9})) << i;
}

TEST(RunningMean, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("running_mean"), "");
  EXPECT_EQ(missing_kernels("running_mean_backward"), "");
  const auto x = at::empty({2, 5, 4}, at::kMeta).requires_grad_();
  EXPECT_EQ(torch::autograd::grad({running_mean(x, x, x).sum()}, {x})[0].sizes(), x.sizes());
}

TEST(RunningMean, RefusesWhatDoesNotFit) {
  const auto x = at::zeros({2, 3, 4});
  EXPECT_EQ(error_of([&] { running_mean(x, x.narrow(1, 0, 2), x); }),
            "running_mean: gate is [2, 3, 4] Float, k [2, 2, 4] Float, v [2, 3, 4] Float");
  EXPECT_EQ(error_of([&] {
              running_mean(x, x, x, at::ones({2, 2}, at::kBool));
            }),
            "running_mean: v is [2, 3, 4] but keep is [2, 2]");
}

}  // namespace
}  // namespace longbow
