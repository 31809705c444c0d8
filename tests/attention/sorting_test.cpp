#include "longbow/attention/sinkhorn/sorting.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor all(int64_t k) {
  return at::ones({k, k}, at::kBool);
}

TEST(SinkhornBalanced, RowsAndColumnsSumToOneAfterManyIterations) {
  const auto s = sinkhorn_balanced(2 * random_normal({3, 5, 5}, 1), all(5), 200);
  EXPECT_NEAR_TENSOR(s.sum(-1), at::ones({3, 5}), (Tolerance{1e-8, 0}));
  EXPECT_NEAR_TENSOR(s.sum(-2), at::ones({3, 5}), (Tolerance{1e-8, 0}));
}

TEST(SinkhornBalanced, IsTheDefinitionAndSurvivesLargeScores) {
  const auto scores = random_normal({4, 4}, 2);
  auto want = scores.exp();
  for (int i = 0; i < 3; ++i) {
    want = want / want.sum(1, true);
    want = want / want.sum(0, true);
  }
  EXPECT_NEAR_TENSOR(sinkhorn_balanced(scores, all(4), 3), want, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(sinkhorn_balanced(scores + 5000, all(4), 3), want, (Tolerance{1e-11, 0}));
}

TEST(SinkhornBalanced, WhatIsNotAllowedHasNoWeightAndNoGradient) {
  const auto scores = random_normal({5, 5}, 3).requires_grad_();
  auto allowed = all(5);
  allowed.narrow(0, 3, 2).fill_(false);
  allowed.narrow(1, 3, 2).fill_(false);
  const auto s = sinkhorn_balanced(scores, allowed, 4);
  EXPECT_NEAR_TENSOR(s.narrow(0, 0, 3).narrow(1, 0, 3),
                     sinkhorn_balanced(scores.narrow(0, 0, 3).narrow(1, 0, 3), all(3), 4),
                     tolerance(at::kDouble));
  EXPECT_EQ((s != 0).sum().item<int64_t>(), 9);
  (s * random_normal({5, 5}, 4)).sum().backward();
  EXPECT_TRUE(scores.grad().isfinite().all().item<bool>());
  EXPECT_EQ((scores.grad() != 0).sum().item<int64_t>(), 9);
}

TEST(BestSources, AreTakenOneAfterAnother) {
  const auto scores = at::tensor({1.0, 3.0, 2.0}).unsqueeze(0);
  const auto picked = best_sources(scores, at::ones({1, 3}, at::kBool), 4, "", {});
  EXPECT_NEAR_TENSOR(picked.index.narrow(1, 0, 3), at::tensor({1, 2, 0}).unsqueeze(0), kExact);
  EXPECT_NEAR_TENSOR(picked.allowed, (at::arange(4) < 3).unsqueeze(0), kExact);
  const double e = std::exp(1.0);
  const auto want = at::tensor({e * e / (1 + e + e * e), e / (1 + e), 1.0, 0.0});
  EXPECT_NEAR_TENSOR(picked.weight, want.unsqueeze(0), tolerance(at::kFloat));
}

}  // namespace
}  // namespace longbow
