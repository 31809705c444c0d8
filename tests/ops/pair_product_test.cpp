#include "longbow/ops/pair_product.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/ops/pair_products.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

using at::Tensor;

// The weights by their definition, one query at a time. [B, H, N, M]
Tensor defined(const PairProblem& p, const Tensor& q, const Tensor& k, const PairSight& sight) {
  const auto w = at::zeros({q.size(0), q.size(1), p.queries, p.keys}, at::kDouble);
  for (int64_t b = 0; b < q.size(0); ++b)
    for (int64_t h = 0; h < q.size(1); ++h)
      for (int64_t i = 0; i < p.queries; ++i) {
        std::vector<std::pair<double, int64_t>> seen;  // the negative score and the key
        for (int64_t j = 0; j < p.keys; ++j)
          if ((!p.causal || j <= i + p.keys - p.queries) &&
              (!sight.keep.defined() || sight.keep[b][j].item<bool>()))
            seen.push_back({-q[b][h][i].dot(k[b][h][j]).item<double>() * sight.scale, j});
        std::sort(seen.begin(), seen.end());
        if (p.budget > 0 && seen.size() > static_cast<size_t>(p.budget)) seen.resize(p.budget);
        double sum = 0;
        for (const auto& [score, j] : seen) sum += std::exp(-score);
        for (const auto& [score, j] : seen)
          w[b][h][i][j] = p.budget > 0 ? std::exp(-score) / sum : std::max(-score, 0.0);
      }
  return w;
}

// Of whole numbers, so that scores are often equal.
TEST(PairProduct, IsItsDefinition) {
  for (const bool causal : {false, true})
    for (const bool hides : {false, true})
      for (const int64_t budget : {0, 1, 3, 100})
        for (const auto& [queries, keys] : {std::pair{7, 7}, {3, 9}, {9, 4}}) {
          const PairProblem p = {queries, keys, 4, 5, causal, hides, budget};
          SCOPED_TRACE(p.named());
          const auto q = random_normal({2, 3, queries, 4}, 1).round(),
                     k = random_normal({2, 3, keys, 4}, 2).round(),
                     v = random_normal({2, 3, keys, 5}, 3);
          const auto sight = p.sight(at::kCPU);
          const auto y =
              budget == 0
                  ? relu_product(q, k, v, sight)
                  : top_product(q, k, v, sight, top_keys(q, k, sight, p.budgets(at::kCPU), false));
          EXPECT_NEAR_TENSOR(y, defined(p, q, k, sight).matmul(v), tolerance(at::kDouble));
        }
}

TEST(PairProduct, HasTheGradientOfItsDefinition) {
  for (const int64_t budget : {0, 3}) {
    const PairProblem p = {6, 8, 4, 5, true, true, budget};
    const auto q = random_normal({2, 3, 6, 4}, 1).requires_grad_(),
               k = random_normal({2, 3, 8, 4}, 2).requires_grad_(),
               v = random_normal({2, 3, 8, 5}, 3).requires_grad_(),
               direction = random_normal({2, 3, 6, 5}, 4);
    const auto sight = p.sight(at::kCPU);
    const auto y = budget == 0 ? relu_product(q, k, v, sight)
                               : top_product(q, k, v, sight,
                                             top_keys(q, k, sight, p.budgets(at::kCPU), false));
    const auto in = defined(p, q.detach(), k.detach(), sight) > 0;
    const auto s = q.matmul(k.transpose(-2, -1)) * sight.scale;
    const auto w = budget == 0 ? s.masked_fill(in.logical_not(), 0)
                               : at::_safe_softmax(s.masked_fill(in.logical_not(), -INFINITY), -1);
    const auto got = torch::autograd::grad({y}, {q, k, v}, {direction}),
               want = torch::autograd::grad({w.matmul(v)}, {q, k, v}, {direction});
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
  }
}

// Equal scores: the first keys stay, or all.
TEST(TopKeys, KeepsTheFirstOfEqualScoresOrAll) {
  const auto q = at::ones({1, 1, 1, 1}, at::kDouble),
             k = at::tensor({1., 2., 1., 2., 1., 0.}).view({1, 1, 6, 1});
  const auto chosen = [&](int32_t budget, bool ties) {
    const auto top = top_keys(q, k, {}, at::full({1, 1}, budget, at::kInt), ties);
    return std::vector<double>{top[0].item<double>(), top[1].item<double>(), top[2].item<double>()};
  };
  EXPECT_EQ(chosen(1, false), (std::vector<double>{2, 1, 2}));
  EXPECT_EQ(chosen(2, false), (std::vector<double>{2, 3, 2}));
  EXPECT_EQ(chosen(4, false), (std::vector<double>{1, 2, 2}));
  EXPECT_EQ(chosen(4, true), (std::vector<double>{1, 6, 2}));
  EXPECT_EQ(chosen(7, false), (std::vector<double>{-INFINITY, 6, 2}));
}

TEST(PairProduct, IsRegistered) {
  EXPECT_EQ(missing_kernels("pair_product"), "");
  EXPECT_EQ(missing_kernels("pair_product_backward"), "");
  EXPECT_EQ(missing_kernels("top_keys"), "");
}

TEST(PairProduct, NamesArgumentsThatDoNotFit) {
  const auto q = at::zeros({2, 3, 4, 5}), v = at::zeros({2, 3, 6, 5});
  EXPECT_NE(error_of([&] {
              relu_product(q, q, v, {});
            }).find("relu_product: q is [2, 3, 4, 5], k [2, 3, 4, 5], v [2, 3, 6, 5]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              relu_product(q, q, q, {.keep = at::ones({2, 6}, at::kBool)});
            }).find("relu_product: keep is [2, 6], but k is [2, 3, 4, 5]"),
            std::string::npos);
  EXPECT_NE(error_of([&] { relu_product(q, q, q, {.scale = 0}); }).find("relu_product: scale is 0"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              top_keys(q, q, {}, at::ones({1, 5}, at::kInt), false);
            }).find("top_keys: budget is [1, 5] of Int, but q is [2, 3, 4, 5]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              top_product(q, q, q, {}, q);
            }).find("top_product: top is [2, 3, 4, 5], but q is [2, 3, 4, 5]"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
