#include "longbow/ops/join_softmax.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// Over the columns first … first + count - 1; of some rows nothing is visible.
SoftmaxPart part(const Tensor& scores, const Tensor& v, int64_t first, int64_t count) {
  const auto s = scores.narrow(-1, first, count);
  return {at::_safe_softmax(s, -1).matmul(v.narrow(-2, first, count)), s.logsumexp(-1, true)};
}

TEST(JoinSoftmax, IsTheSoftmaxOverBoth) {
  const auto leaf = (random_normal({2, 3, 5, 9}, 1) * 10).requires_grad_();
  const auto v = random_normal({2, 3, 9, 4}, 2).requires_grad_();
  const auto hidden = random_normal({2, 3, 5, 9}, 3) > -1;
  const auto scores = leaf.masked_fill(hidden, -INFINITY);
  const auto whole = part(scores, v, 0, 9);
  const auto joined = join_softmax(part(scores, v, 0, 4), part(scores, v, 4, 5));
  const auto seen = whole.log_sum.isneginf().logical_not();
  EXPECT_LT(seen.to(at::kDouble).mean().item<double>(), 1);
  EXPECT_NEAR_TENSOR(joined.out, whole.out, tolerance(at::kDouble));
  EXPECT_TRUE(at::equal(joined.log_sum.isneginf(), seen.logical_not()));
  const auto slopes = [&](const SoftmaxPart& x) {
    const auto sum = (x.out * random_normal(x.out.sizes(), 4)).sum() +
                     (x.log_sum * random_normal(x.log_sum.sizes(), 5)).masked_select(seen).sum();
    return torch::autograd::grad({sum}, {leaf, v}, {}, true);
  };
  const auto got = slopes(joined), want = slopes(whole);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
}

// A coarser part, with a row more than it needs: as if each of its rows were written out.
TEST(JoinSoftmax, SpreadsTheRowsOfTheOtherPart) {
  const auto a = random_normal({2, 3, 5, 4}, 1).requires_grad_(),
             log_a = random_normal({2, 3, 5, 1}, 2).requires_grad_(),
             b = random_normal({2, 3, 4, 4}, 3).requires_grad_(),
             log_b = random_normal({2, 3, 4, 1}, 4).requires_grad_();
  const auto written = [](const Tensor& x) { return x.repeat_interleave(2, 2).narrow(2, 0, 5); };
  const auto got = join_softmax({a, log_a}, {b, log_b}, 2),
             want = join_softmax({a, log_a}, {written(b), written(log_b)});
  EXPECT_TRUE(at::equal(got.out, want.out));
  EXPECT_TRUE(at::equal(got.log_sum, want.log_sum));
  const auto slopes = [&](const SoftmaxPart& x) {
    return torch::autograd::grad(
        {x.out, x.log_sum}, {a, log_a, b, log_b},
        {random_normal(x.out.sizes(), 5), random_normal(x.log_sum.sizes(), 6)});
  };
  const auto got_slopes = slopes(got), want_slopes = slopes(want);
  for (size_t i = 0; i < got_slopes.size(); ++i)
    EXPECT_NEAR_TENSOR(got_slopes[i], want_slopes[i], tolerance(at::kDouble)) << i;
}

TEST(JoinSoftmax, IsRegistered) {
  EXPECT_EQ(missing_kernels("join_softmax"), "");
  EXPECT_EQ(missing_kernels("join_softmax_backward"), "");
}

TEST(JoinSoftmax, NamesPartsThatDoNotFit) {
  const auto x = at::zeros({2, 3, 4});
  EXPECT_NE(error_of([&] {
              join_softmax({x, x.narrow(2, 0, 1)}, {x.narrow(1, 0, 2), x.narrow(2, 0, 1)});
            })
                .find("join_softmax: parts of [2, 3, 4] and [2, 3, 1], and of [2, 2, 4] and [2, 3, "
                      "1], each row for 1"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
