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
                      "1]"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
