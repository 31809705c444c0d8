#include "longbow/ops/slot_mixture.h"

#include <gtest/gtest.h>

#include "longbow/ops/philox.h"
#include "tests/ops/registered.h"
#include "tests/ops/slot_mixtures.h"

namespace longbow {
namespace {

using at::Tensor;

// One head of one token at a time.
Tensor defined(const Tensor& x, const Tensor& keys, const Tensor& values, const Tensor& bias,
               const Drop& drop) {
  const int64_t heads = keys.size(2), slots = keys.size(3);
  const auto noise =
      philox_uniform(drop.key, drop.site, {x.size(0), x.size(1), x.size(2), heads, slots});
  std::vector<Tensor> rows;
  for (int64_t b = 0; b < x.size(0); ++b)
    for (int64_t l = 0; l < x.size(1); ++l)
      for (int64_t i = 0; i < x.size(2); ++i) {
        auto sum = at::zeros({values.size(4)}, x.options());
        for (int64_t h = 0; h < heads; ++h) {
          const auto power = (keys[b][l][h].mv(x[b][l][i]) +
                              (bias.defined() ? bias[b][l][h] : at::zeros({slots}, x.options())))
                                 .exp();
          if (power.sum().item<double>() == 0) continue;
          const auto stays = noise[b][l][i][h].ge(drop.rate).to(x.scalar_type());
          sum = sum + values[b][l][h].t().mv(stays * power / power.sum());
        }
        rows.push_back(sum);
      }
  return at::stack(rows).view({x.size(0), x.size(1), x.size(2), -1});
}

void expect_definition(const MixtureProblem& p) {
  const auto want = mixture_results(defined, p, at::kDouble, at::kCPU);
  const auto op = mixture_results(slot_mixture, p, at::kDouble, at::kCPU),
             formula = mixture_results(slot_mixture_formula, p, at::kDouble, at::kCPU);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR_TENSOR(op[i], want[i], tolerance(at::kDouble)) << i;
    EXPECT_NEAR_TENSOR(formula[i], want[i], tolerance(at::kDouble)) << i;
  }
}

TEST(SlotMixture, IsTheSumOfSoftmaxesOfAllHeadsWithItsGradients) {
  const MixtureSizes size = {.tokens = 7, .slots = 5, .heads = 3, .width = 4, .value_width = 6};
  for (const auto bias : {SlotBias::none, SlotBias::all})
    for (const double rate : {0.0, 0.3}) expect_definition({size, bias, rate});
  auto lanes = size;
  lanes.lanes = 2;
  expect_definition({lanes, SlotBias::all, 0.3});
}

TEST(SlotMixture, HiddenSlotsAreNotRead) {
  const MixtureProblem p = {{.tokens = 7, .slots = 5, .width = 4, .value_width = 6},
                            SlotBias::hides};
  const auto got = mixture_results(slot_mixture, p, at::kDouble, at::kCPU);
  for (const auto& one : got) {
    EXPECT_TRUE(one.isfinite().all().item<bool>());
    EXPECT_EQ(one[0].abs().max().item<double>(), 0);
    EXPECT_GT(one[1].abs().max().item<double>(), 0);
  }
}

TEST(SlotMixture, IsRegistered) {
  EXPECT_EQ(missing_kernels("slot_mixture"), "");
  EXPECT_EQ(missing_kernels("slot_mixture_backward"), "");
}

TEST(SlotMixture, NamesArgumentsThatDoNotFit) {
  const auto x = at::zeros({2, 1, 7, 4}), keys = at::zeros({2, 1, 3, 5, 4}),
             values = at::zeros({2, 1, 3, 6, 4});
  EXPECT_NE(
      error_of([&] {
        slot_mixture(x, keys, values);
      }).find("slot_mixture: x is [2, 1, 7, 4], keys [2, 1, 3, 5, 4], values [2, 1, 3, 6, 4]"),
      std::string::npos);
  EXPECT_NE(error_of([&] {
              slot_mixture(x, keys, keys, at::zeros({2, 3, 5}));
            }).find("slot_mixture: keys are [2, 1, 3, 5, 4] but bias is [2, 3, 5]"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
