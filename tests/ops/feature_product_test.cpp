#include "longbow/ops/feature_product.h"

#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/feature_products.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

std::vector<FeatureProduct> ways(int64_t b, int64_t n, int64_t m) {
  const auto keep = random_normal({b, m}, 9) > -0.5;
  return {{.query_map = FeatureMap::elu, .key_map = FeatureMap::elu, .added = 1e-6},
          {.query_map = FeatureMap::relu,
           .key_map = FeatureMap::relu,
           .query_turns = some_turns(n),
           .key_turns = some_turns(m),
           .keep = keep,
           .least = 1e-6},
          {.query_map = FeatureMap::square, .key_map = FeatureMap::exp, .keep = keep, .least = 40},
          {.keep = keep, .normalised = false}};
}

TEST(FeatureProduct, AMaskThatChangedBeforeTheBackwardPassIsAnError) {
  const FeatureInputs in(2, 3, 5, 9, 6, 5);
  const auto q = in.q.clone().requires_grad_();
  const auto keep = at::ones({2, 9}, at::kBool);
  const auto out = feature_product(q, in.k, in.v, {.keep = keep});
  keep.logical_not_();
  EXPECT_NE(error_of([&] { out.sum().backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(FeatureProduct, IsItsDefinition) {
  for (const auto& [n, m, causal] :
       {std::tuple{1, 1, false}, {5, 9, false}, {12, 3, false}, {1, 1, true}, {70, 70, true}}) {
    const FeatureInputs in(2, 3, n, m, 6, 5);
    for (auto how : ways(2, n, m)) {
      how.causal = causal;
      const auto want =
          results_of(in, at::kDouble, [&](const auto& q, const auto& k, const auto& v) {
            return dense_feature_product(q, k, v, how);
          });
      for (const auto& product : {feature_product, feature_product_formula}) {
        const auto got = results_of(
            in, at::kDouble,
            [&](const auto& q, const auto& k, const auto& v) { return product(q, k, v, how); });
        constexpr Tolerance kClose = {1e-10, 1e-10};
        EXPECT_NEAR_TENSOR(got.out, want.out, kClose);
        EXPECT_NEAR_TENSOR(got.dq, want.dq, kClose);
        EXPECT_NEAR_TENSOR(got.dk, want.dk, kClose);
        EXPECT_NEAR_TENSOR(got.dv, want.dv, kClose);
      }
    }
  }
}

TEST(FeatureProduct, SumsAreThoseOfItsDefinition) {
  for (const bool causal : {false, true}) {
    FeatureInputs in(2, 3, 7, 7, 6, 4);
    in.g = random_normal({2, 3, 7, 5}, 4);
    for (auto how : ways(2, 7, 7)) {
      how.causal = causal;
      const auto want = results_of(
          in, at::kDouble,
          [&](const auto& q, const auto& k, const auto& v) { return dense_sums(q, k, v, how); });
      const auto got =
          results_of(in, at::kDouble, [&](const auto& q, const auto& k, const auto& v) {
            return beside(feature_product_sums(q, k, v, how));
          });
      constexpr Tolerance kClose = {1e-10, 1e-10};
      EXPECT_NEAR_TENSOR(got.out, want.out, kClose);
      EXPECT_NEAR_TENSOR(got.dq, want.dq, kClose);
      EXPECT_NEAR_TENSOR(got.dk, want.dk, kClose);
      EXPECT_NEAR_TENSOR(got.dv, want.dv, kClose);
    }
  }
}

TEST(FeatureProduct, HasASecondDerivative) {
  const FeatureInputs in(1, 2, 4, 5, 3, 3);
  const auto how = ways(1, 4, 5)[1];
  const auto second = [&](const auto& product) {
    const auto k = in.k.detach().requires_grad_();
    const auto y = product(in.q, k, in.v, how);
    const auto dk = torch::autograd::grad({(y * in.g).sum()}, {k}, {}, true, true)[0];
    return torch::autograd::grad({dk.square().sum()}, {k})[0];
  };
  EXPECT_NEAR_TENSOR(second(feature_product), second(dense_feature_product),
                     (Tolerance{1e-10, 1e-10}));
}

TEST(FeatureProduct, SumsOfHalfTypesAreFloat32) {
  const auto one = at::ones({1, 1, 4096, 8}, at::kBFloat16);
  const auto out = feature_product(one, one, one, {.normalised = false});
  EXPECT_NEAR_TENSOR(out, at::full_like(one, 4096 * 8), kExact);
}

TEST(FeatureProduct, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("feature_product"), "");
  EXPECT_EQ(missing_kernels("feature_product_backward"), "");
  const auto q = at::empty({2, 3, 7, 8}, at::kMeta).requires_grad_(),
             k = at::empty({2, 3, 9, 8}, at::kMeta), v = at::empty({2, 3, 9, 4}, at::kMeta);
  const auto y = feature_product(q, k, v, {});
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 3, 7, 4}));
  EXPECT_EQ(torch::autograd::grad({y.sum()}, {q})[0].sizes(), q.sizes());
}

TEST(FeatureProduct, RefusesWhatDoesNotFit) {
  const auto x = at::zeros({1, 2, 3, 4});
  EXPECT_EQ(error_of([&] {
              feature_product(x, at::zeros({1, 2, 3, 5}), x, {});
            }),
            "feature_product: q is [1, 2, 3, 4], k [1, 2, 3, 5], v [1, 2, 3, 4]");
  EXPECT_EQ(error_of([&] { feature_product(x, x, x.to(at::kDouble), {}); }),
            "feature_product: q, k, v are Float, Float, Double");
  EXPECT_EQ(error_of([&] {
              feature_product(x, x, x, {.keep = at::ones({1, 4}, at::kBool)});
            }),
            "feature_product: keep is [1, 4] Bool, but k is [1, 2, 3, 4]");
  EXPECT_EQ(error_of([&] { feature_product(x, x, x, {.query_turns = some_turns(3)}); }),
            "feature_product: either queries and keys are turned, or neither");
  const auto more = at::zeros({1, 2, 5, 4});
  EXPECT_EQ(error_of([&] { feature_product(x, more, more, {.causal = true}); }),
            "feature_product: causal, but q is [1, 2, 3, 4] and k [1, 2, 5, 4]");
  EXPECT_EQ(error_of([&] {
              feature_product(x, x, x, {.query_turns = some_turns(2), .key_turns = some_turns(3)});
            }),
            "feature_product: turns are [1, 2, 2] of tokens [1, 2, 3, 4]");
}

}  // namespace
}  // namespace longbow
