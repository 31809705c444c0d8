#include "longbow/nn/layers/set_block.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

std::shared_ptr<SetBlock> made(SetStyle style, bool norms = false, int64_t in = 4) {
  const Site site = {.shape = {.width = 4, .heads = 2, .head_width = 3}, .init = "xavier"};
  auto block = std::make_shared<SetBlock>(site, in, 5, style, norms);
  block->to(at::kDouble);
  return block;
}

Tensor run(const std::shared_ptr<SetBlock>& block, const Tensor& x, const Tensor& y,
           const Tensor& keep = {}) {
  Context context;
  return (*block)(x, y, keep, context);
}

TEST(SetBlock, KeysOfZeroReadTheMeanOfTheValues) {
  const auto block = made(SetStyle::plain);
  const at::NoGradGuard no_grad;
  auto p = block->named_parameters();
  p["key.weight"].zero_();
  const auto x = random_normal({1, 3, 4}, 1), y = random_normal({2, 6, 5}, 2);
  const auto mean = at::linear(y, p["value.weight"], p["value.bias"]).mean(1, true);
  EXPECT_NEAR_TENSOR(
      run(block, x, y),
      at::linear(mean, p["output.weight"], p["output.bias"]).expand({2, 3, 4}).contiguous(),
      tolerance(at::kDouble));
}

TEST(SetBlock, DoesNotDependOnTheOrderOfTheSetNorOnHiddenElements) {
  for (const auto style : {SetStyle::reference, SetStyle::paper, SetStyle::plain}) {
    const auto block = made(style, true);
    const auto x = random_normal({1, 3, 4}, 1), y = random_normal({2, 6, 5}, 2);
    const auto want = run(block, x, y);
    EXPECT_NEAR_TENSOR(run(block, x, y.flip(1)), want, tolerance(at::kDouble));
    const auto more = at::cat({y, 100 * random_normal({2, 2, 5}, 3)}, 1);
    EXPECT_NEAR_TENSOR(run(block, x, more, at::arange(8).expand({2, 8}) < 6), want,
                       tolerance(at::kDouble));
  }
}

TEST(SetBlock, OfAnEmptySetNothingIsRead) {
  const auto block = made(SetStyle::paper);
  const auto x = random_normal({2, 3, 4}, 1);
  const auto none = at::zeros({2, 6}, at::kBool);
  const auto one = run(block, x, random_normal({2, 6, 5}, 2), none),
             other = run(block, x, random_normal({2, 6, 5}, 3), none);
  EXPECT_NEAR_TENSOR(one, other, kExact);
}

TEST(SetBlock, NormsAreThereWhenAskedFor) {
  EXPECT_EQ(made(SetStyle::reference)->parameters().size(), 8U);
  EXPECT_EQ(made(SetStyle::reference, true)->parameters().size(), 12U);
  EXPECT_EQ(made(SetStyle::plain, true)->parameters().size(), 8U);
}

TEST(SetBlock, SaysWhichSizesDoNotFit) {
  const Site odd = {.shape = {.width = 5, .heads = 2}};
  EXPECT_EQ(error_of([&] { SetBlock(odd, 5, 5, SetStyle::reference, false); }),
            "set block: 5 channels do not divide among 2 heads");
  EXPECT_EQ(error_of([] { made(SetStyle::paper, false, 3); }),
            "set block: rows of 3 channels cannot be added to 4");
}

}  // namespace
}  // namespace longbow
