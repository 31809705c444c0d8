#include "longbow/nn/softmax/partial_softmax.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/nn/softmax/softmax.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(PartialSoftmax, PartsAddUpToTheWhole) {
  const auto scores = (random_normal({2, 5, 9}, 1) * 50).requires_grad_();
  const auto v = random_normal({2, 9, 3}, 2), weights = random_normal({2, 5, 3}, 3);
  const auto visible = random_normal({2, 5, 9}, 4) > 0;
  const auto part = [&](int64_t first, int64_t count) {
    return PartialSoftmax::over(scores.narrow(2, first, count), visible.narrow(2, first, count),
                                v.narrow(1, first, count));
  };
  const auto slope = [&](const Tensor& y) {
    (y * weights).sum().backward();
    const auto gradient = scores.grad().clone();
    scores.mutable_grad().zero_();
    return gradient;
  };
  const auto want = masked_softmax(scores, visible).matmul(v);
  const auto got = (part(0, 2) + part(2, 6) + part(8, 1)).mean;
  EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(slope(got), slope(want), tolerance(at::kDouble));
}

TEST(PartialSoftmax, APartMayHaveBeenReadAlready) {
  const auto scores = (random_normal({2, 5, 9}, 1) * 50).requires_grad_();
  const auto v = random_normal({2, 9, 3}, 2), weights = random_normal({2, 5, 3}, 3);
  const auto visible = random_normal({2, 5, 9}, 4) > 0.9;
  const auto part = [&](int64_t first, int64_t count, bool read) {
    const auto s = scores.narrow(2, first, count), seen = visible.narrow(2, first, count),
               rows = v.narrow(1, first, count);
    if (!read) return PartialSoftmax::over(s, seen, rows);
    const auto hidden = s.masked_fill(seen.logical_not(), -INFINITY);
    return PartialSoftmax{masked_softmax(s, seen).matmul(rows), hidden.logsumexp(-1, true)};
  };
  const auto slope = [&](const Tensor& y) {
    return torch::autograd::grad({(y * weights).sum()}, {scores})[0];
  };
  for (const bool other : {false, true}) {
    const auto want = masked_softmax(scores, visible).matmul(v);
    const auto got = (part(0, 6, true) + part(6, 3, other)).mean;
    EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(slope(got), slope(want), tolerance(at::kDouble));
  }
}

TEST(PartialSoftmax, NothingVisibleIsZeroAndAddsNothing) {
  const auto scores = random_normal({1, 2, 4}, 5).requires_grad_();
  const auto v = random_normal({1, 4, 3}, 6);
  const auto none = PartialSoftmax::over(scores, at::zeros({2, 4}, at::kBool), v);
  const auto all = PartialSoftmax::over(scores, at::ones({2, 4}, at::kBool), v);
  EXPECT_NEAR_TENSOR(none.mean, at::zeros({1, 2, 3}, at::kDouble), kExact);
  EXPECT_NEAR_TENSOR((none + none).mean, at::zeros({1, 2, 3}, at::kDouble), kExact);
  EXPECT_NEAR_TENSOR((none + all).mean, all.mean, kExact);
  (none + none).mean.sum().backward();
  EXPECT_NEAR_TENSOR(scores.grad(), at::zeros({1, 2, 4}, at::kDouble), kExact);
}

TEST(PartialSoftmax, IsAtLeastFloat32) {
  const auto half = at::zeros({1, 1, 2}, at::kBFloat16);
  const auto part = PartialSoftmax::over(half, at::ones({1, 2}, at::kBool), half.transpose(1, 2));
  EXPECT_EQ(part.mean.scalar_type(), at::kFloat);
  EXPECT_EQ(part.log_sum.scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace longbow
