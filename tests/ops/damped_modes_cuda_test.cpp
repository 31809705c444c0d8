#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/damped_modes.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(DampedModesCuda, AreTheFormulaForAllTypes) {
  for (const auto& [type, error] : {std::pair{at::kFloat, 1e-5},
                                    {at::kBFloat16, 8e-3},
                                    {at::kHalf, 1e-3},
                                    {at::kDouble, 1e-12}})
    for (const int64_t rows : {40, 80}) {
      SCOPED_TRACE(c10::str(rows, " ", type));
      const auto given = at::TensorOptions(type);
      const auto found = [&](const at::TensorOptions& options) {
        std::vector<Tensor> x;
        for (const uint64_t seed : {1, 2, 3, 4})
          x.push_back(random_normal({80, 16}, seed).to(given).to(options).requires_grad_());
        const auto modes = damped_modes({x[0], x[1], x[2], x[3]}, rows, 0.25, -1);
        const auto slopes = random_normal({rows, 16}, 5).to(modes.rate.options());
        auto all = torch::autograd::grad({modes.rate, modes.weight}, x, {slopes, slopes});
        all.push_back(modes.rate.detach());
        all.push_back(modes.weight.detach());
        for (auto& one : all) one = one.cpu().to(at::kDouble);
        return all;
      };
      const auto got = found(at::TensorOptions(type).device("cuda:0")), want = found(at::kDouble);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{error, error})) << i;
    }
}

TEST(DampedModesCuda, OfNoRowsAreNone) {
  const auto x = random_normal({6, 3}, 1).to(at::kFloat).cuda().requires_grad_();
  const auto none = damped_modes({x, x, x, x}, 0, 1, -1);
  EXPECT_EQ(none.rate.sizes(), at::IntArrayRef({0, 3}));
  EXPECT_NEAR_TENSOR(torch::autograd::grad({none.rate.sum() + none.weight.sum()}, {x})[0].cpu(),
                     at::zeros({6, 3}), kExact);
}

TEST(DampedModesCuda, HideNoNaN) {
  const auto x = at::ones({2, 3}, at::TensorOptions("cuda:0").dtype(at::kFloat)),
             bad = at::full_like(x, NAN);
  EXPECT_TRUE(damped_modes({x, bad, x, x}, 2, 1, -1).rate.isnan().all().item<bool>());
}

}  // namespace
}  // namespace longbow
