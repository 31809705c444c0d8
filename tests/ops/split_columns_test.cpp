#include "longbow/ops/split_columns.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(SplitColumns, AreThoseOfX) {
  const auto x = random_normal({2, 3, 7}, 1);
  for (const auto& given : {x, x.clone().requires_grad_()}) {
    const auto parts = split_columns(given, {2, 4, 1});
    EXPECT_TRUE(at::equal(parts[0], x.narrow(-1, 0, 2)));
    EXPECT_TRUE(at::equal(parts[1], x.narrow(-1, 2, 4)));
    EXPECT_TRUE(at::equal(parts[2], x.narrow(-1, 6, 1)));
  }
}

TEST(SplitColumns, GradientsAreThoseOfDifferences) {
  const auto x = random_normal({2, 3, 7}, 1).requires_grad_();
  EXPECT_TRUE(gradcheck(
      [&] {
        const auto parts = split_columns(x, {3, 3, 1});
        return parts[0] * parts[1].exp() + parts[2];
      },
      {{"x", x}}));
}

// The gradient of x where its parts have these.
Tensor gradient_of(const std::vector<Tensor>& gradients) {
  const auto x = at::zeros({2, 3, 6}, at::kDouble).requires_grad_();
  std::vector<int64_t> widths;
  for (const auto& gradient : gradients) widths.push_back(gradient.size(-1));
  torch::autograd::backward(split_columns(x, widths), gradients);
  return x.grad();
}

TEST(SplitColumns, GradientsThatLieBesideEachOtherAreNotCopied) {
  const auto all = random_normal({2, 3, 6}, 2);
  const auto beside = gradient_of(all.split(2, -1));
  EXPECT_TRUE(at::equal(beside, all));
  EXPECT_TRUE(beside.is_alias_of(all));
}

TEST(SplitColumns, OthersAre) {
  const auto all = random_normal({2, 3, 6}, 2);
  const auto parts = all.split(2, -1);
  for (const auto& gradients :
       {std::vector<Tensor>{parts[1], parts[0], parts[2]},               // in another order
        {parts[0], parts[1].clone(), parts[2]},                          // apart
        {parts[0], parts[0], parts[0]},                                  // the same
        {parts[0], all.narrow(-1, 2, 4).narrow(-1, 1, 2), parts[2]}}) {  // with a gap
    const auto found = gradient_of(gradients);
    EXPECT_TRUE(at::equal(found, at::cat(gradients, -1)));
    EXPECT_FALSE(found.is_alias_of(all));
  }
}

}  // namespace
}  // namespace longbow
