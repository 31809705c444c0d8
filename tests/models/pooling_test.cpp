#include "longbow/models/encoder/pooling.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor rows(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble).view({-1, 1, 2});  // [tokens, 1, 2]
}

TEST(Pooling, IsOverRealTokensOnly) {
  const auto x = rows({1, -2, 3, -4, 50, 60}).transpose(0, 1);  // [1, 3, 2]
  const auto keep = at::tensor({1, 1, 0}, at::kLong).to(at::kBool).unsqueeze(0);
  const auto want = [](double a, double b) { return at::tensor({a, b}, at::kDouble).unsqueeze(0); };
  EXPECT_NEAR_TENSOR(pooled(x, keep, Pooling::mean), want(2, -3), kExact);
  EXPECT_NEAR_TENSOR(pooled(x, keep, Pooling::max), want(3, -2), kExact);
  EXPECT_NEAR_TENSOR(pooled(x, keep, Pooling::first), want(1, -2), kExact);
  EXPECT_NEAR_TENSOR(pooled(x, keep, Pooling::none), x, kExact);
  EXPECT_NEAR_TENSOR(pooled(x, {}, Pooling::mean), want(18, 18), kExact);
  EXPECT_NEAR_TENSOR(pooled(x, {}, Pooling::max), want(50, 60), kExact);
}

TEST(Pooling, ARowWithoutTokensGivesZerosAndFiniteGradients) {
  for (const auto pooling : {Pooling::mean, Pooling::max}) {
    auto x = random_normal({2, 3, 2}, 1).requires_grad_();
    const auto keep = at::tensor({0, 0, 0, 1, 1, 0}, at::kLong).to(at::kBool).view({2, 3});
    const auto y = pooled(x, keep, pooling);
    EXPECT_NEAR_TENSOR(y[0], at::zeros({2}, at::kDouble), kExact);
    y.sum().backward();
    EXPECT_NEAR_TENSOR(x.grad()[0], at::zeros({3, 2}, at::kDouble), kExact);
    EXPECT_GT(x.grad()[1].abs().sum().item<double>(), 0);
  }
}

Site site(int64_t width) {
  return {.shape = {.width = width}, .path = "pooler", .init = "xavier", .seed = 1};
}

std::shared_ptr<Pooler> pooler(Pooling pooling, bool dense = false) {
  auto made = std::make_shared<Pooler>(site(2), pooling, dense);
  made->to(at::kDouble);
  return made;
}

TEST(Pooler, AttentionWeighsRealTokensByTheirProductWithTheQuery) {
  const auto made = pooler(Pooling::attention);
  const at::NoGradGuard no_grad;
  made->named_parameters()["query"].copy_(at::tensor({1.0, 2.0}, at::kDouble));
  const auto x = rows({1, -2, 3, -4, 50, 60}).transpose(0, 1);
  const auto keep = at::tensor({1, 1, 0}, at::kLong).to(at::kBool).unsqueeze(0);
  // Products -3 and -5, over sqrt 2.
  const double first = 1 / (1 + std::exp(-2 / std::sqrt(2.0))), second = 1 - first;
  EXPECT_NEAR_TENSOR(
      (*made)(x, keep),
      at::tensor({first + 3 * second, -2 * first - 4 * second}, at::kDouble).unsqueeze(0),
      (Tolerance{1e-12, 0}));
  EXPECT_NEAR_TENSOR((*made)(x.narrow(1, 0, 2), {}), (*made)(x, keep), (Tolerance{1e-12, 0}));
}

TEST(Pooler, AttentionOverNothingIsZeroWithFiniteGradients) {
  const auto made = pooler(Pooling::attention);
  auto x = random_normal({2, 3, 2}, 1).requires_grad_();
  const auto keep = at::tensor({0, 0, 0, 1, 1, 0}, at::kLong).to(at::kBool).view({2, 3});
  const auto y = (*made)(x, keep);
  EXPECT_NEAR_TENSOR(y[0], at::zeros({2}, at::kDouble), kExact);
  y.sum().backward();
  EXPECT_NEAR_TENSOR(x.grad()[0], at::zeros({3, 2}, at::kDouble), kExact);
  EXPECT_TRUE(made->named_parameters()["query"].grad().isfinite().all().item<bool>());
  EXPECT_GT(x.grad()[1].abs().sum().item<double>(), 0);
  EXPECT_NEAR_TENSOR(x.grad()[1][2], at::zeros({2}, at::kDouble), kExact);
}

std::shared_ptr<Pooler> pma(int64_t seeds, bool dense = false) {
  Site site = {.shape = {.width = 6, .heads = 2, .head_width = 2}, .path = "pooler"};
  site.init = "xavier";
  auto made = std::make_shared<Pooler>(site, Pooling::pma, dense, seeds);
  made->to(at::kDouble);
  return made;
}

TEST(Pooler, SeedsReadASetWhateverItsOrderAndMultiplicity) {
  for (const int64_t seeds : {1, 3}) {
    const auto made = pma(seeds);
    const auto x = random_normal({2, 5, 6}, 1);
    const auto y = (*made)(x, {});
    ASSERT_EQ(y.sizes(), (std::vector<int64_t>{2, 6 * seeds}));
    EXPECT_EQ(made->width(), 6 * seeds);
    EXPECT_NEAR_TENSOR((*made)(x.flip(1), {}), y, (Tolerance{1e-12, 0}));
    EXPECT_NEAR_TENSOR((*made)(at::cat({x, x}, 1), {}), y, (Tolerance{1e-12, 0}));
    const auto longer = at::cat({x, 100 * random_normal({2, 3, 6}, 2)}, 1);
    EXPECT_NEAR_TENSOR((*made)(longer, at::arange(8).expand({2, 8}) < 5), y, (Tolerance{1e-12, 0}));
  }
}

TEST(Pooler, SeedsThatReadNothingGiveZerosAndFiniteGradients) {
  const auto made = pma(2);
  auto x = random_normal({2, 3, 6}, 1).requires_grad_();
  const auto keep = at::tensor({0, 0, 0, 1, 1, 0}, at::kLong).to(at::kBool).view({2, 3});
  const auto y = (*made)(x, keep);
  EXPECT_NEAR_TENSOR(y[0], at::zeros({12}, at::kDouble), kExact);
  (y * random_normal({2, 12}, 2)).sum().backward();
  EXPECT_NEAR_TENSOR(x.grad()[0], at::zeros({3, 6}, at::kDouble), kExact);
  EXPECT_TRUE(made->named_parameters()["seeds"].grad().isfinite().all().item<bool>());
  EXPECT_GT(x.grad()[1].abs().sum().item<double>(), 0);
}

TEST(Pooler, ADensePoolerMakesOneRowOfAllSeeds) {
  EXPECT_EQ(pma(3, true)->width(), 6);
  EXPECT_EQ((*pma(3, true))(random_normal({2, 5, 6}, 1), {}).sizes(), (std::vector<int64_t>{2, 6}));
}

TEST(Pooler, BertsIsALinearLayerAndTanhOfTheFirstToken) {
  const auto made = pooler(Pooling::first, true);
  const auto p = made->named_parameters();
  const auto x = random_normal({2, 3, 2}, 1);
  EXPECT_NEAR_TENSOR((*made)(x, {}),
                     (x.select(1, 0).matmul(p["dense.weight"].t()) + p["dense.bias"]).tanh(),
                     (Tolerance{1e-12, 0}));
  EXPECT_TRUE(pooler(Pooling::first)->parameters().empty());
}

TEST(Pooler, SaysThatAttentionHasWeights) {
  EXPECT_EQ(error_of([] {
              pooled(at::ones({1, 2, 2}), {}, Pooling::attention);
            }),
            "pooled: attention needs the weights of a Pooler");
  EXPECT_EQ(error_of([] {
              pooled(at::ones({1, 2, 2}), {}, Pooling::pma);
            }),
            "pooled: pma needs the weights of a Pooler");
}

}  // namespace
}  // namespace longbow
