#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/level_starts.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(LevelStartsCuda, AreTheFormulaForAllSizesAndTypes) {
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const auto& [tokens, width] : {std::pair{1, 8}, {2, 64}, {100, 24}, {333, 64}, {40, 12}}) {
      SCOPED_TRACE(c10::str(tokens, " x ", width, " ", type));
      const std::vector<int64_t> rows = {(tokens + 1) / 2 + 3, (tokens + 3) / 4, (tokens + 7) / 8};
      const auto x = random_normal({2, 3, tokens, width}, 1).to(at::Device("cuda:0"), type);
      const auto leaf = x.detach().requires_grad_();
      const auto y = level_starts(leaf, rows);
      EXPECT_EQ(y.transpose(1, 2).is_contiguous(), width % 8 == 0);  // as the kernel lays it out
      EXPECT_TRUE(y.equal(level_starts_formula(x, rows)));
      const auto g = random_normal(y.sizes(), 2).to(x.options());
      EXPECT_TRUE(torch::autograd::grad({y}, {leaf}, {g})[0].equal(
          level_starts_formula_backward(g, tokens, rows)));
    }
}

TEST(LevelStartsCuda, AreZerosWithoutTokens) {
  const auto x = at::empty({1, 2, 0, 8}, at::kHalf).to(at::Device("cuda:0")).requires_grad_();
  const auto y = level_starts(x, {2, 1});
  EXPECT_TRUE(y.equal(at::zeros({1, 2, 3, 8}, x.options())));
  EXPECT_EQ(torch::autograd::grad({y}, {x}, {at::ones_like(y)})[0].sizes(), x.sizes());
}

}  // namespace
}  // namespace longbow
