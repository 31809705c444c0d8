#include "longbow/ops/random_product.h"

#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/random_products.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

constexpr auto kExponential = RandomMap::exponential, kTrigonometric = RandomMap::trigonometric;

TEST(RandomProduct, IsItsDefinition) {
  for (const auto map : {kExponential, kTrigonometric})
    for (const auto& [n, m] : {std::pair{1, 1}, {5, 9}, {12, 3}}) {
      const RandomInputs in(2, 3, n, m, 6, 5, 7);
      for (const auto& keep : {at::Tensor(), random_normal({2, m}, 9) > -0.5}) {
        const auto how = in.way(map, keep);
        const auto want = random_results(in, how, at::kDouble, dense_random_product),
                   op = random_results(in, how, at::kDouble, random_product),
                   formula = random_results(in, how, at::kDouble, random_product_formula);
        for (size_t i = 0; i < want.all.size(); ++i) {
          EXPECT_NEAR_TENSOR(op.all[i], want.all[i], (Tolerance{1e-9, 1e-9}));
          EXPECT_NEAR_TENSOR(formula.all[i], want.all[i], (Tolerance{1e-9, 1e-9}));
        }
      }
    }
}

TEST(RandomProduct, IsItsDefinitionUnderACausalMask) {
  for (const auto map : {kExponential, kTrigonometric})
    for (const int64_t n : {1, 7, 70}) {
      const RandomInputs in(2, 3, n, n, 6, 5, 7);
      const auto how = in.way(map, random_normal({2, n}, 9) > -0.5, true);
      const auto want = random_results(in, how, at::kDouble, dense_random_product),
                 op = random_results(in, how, at::kDouble, random_product),
                 formula = random_results(in, how, at::kDouble, random_product_formula);
      for (size_t i = 0; i < want.all.size(); ++i) {
        EXPECT_NEAR_TENSOR(op.all[i], want.all[i], (Tolerance{1e-9, 1e-9}));
        EXPECT_NEAR_TENSOR(formula.all[i], want.all[i], (Tolerance{1e-9, 1e-9}));
      }
    }
}

TEST(RandomProduct, LargeExponentsCancel) {
  RandomInputs in(1, 2, 4, 5, 8, 3, 9);
  in.q = in.q * 100;
  in.k = in.k * 100;
  EXPECT_TRUE(random_product(in.q, in.k, in.v, in.way(kExponential)).isfinite().all().item<bool>());
  RandomInputs same(1, 2, 70, 70, 8, 3, 9);
  same.k = same.k * 100;
  for (const auto& t :
       random_results(same, same.way(kExponential, {}, true), at::kDouble, random_product).all)
    EXPECT_TRUE(t.isfinite().all().item<bool>());
}

TEST(RandomProduct, HasASecondDerivative) {
  for (const bool causal : {false, true}) {
    const RandomInputs in(1, 2, 4, causal ? 4 : 5, 3, 3, 6);
    for (const auto map : {kExponential, kTrigonometric}) {
      const auto second = [&](const auto& product) {
        const auto k = in.k.detach().requires_grad_();
        const auto y = product(in.q, k, in.v, in.way(map, {}, causal));
        const auto dk = torch::autograd::grad({(y * in.g).sum()}, {k}, {}, true, true)[0];
        return torch::autograd::grad({dk.square().sum()}, {k})[0];
      };
      EXPECT_NEAR_TENSOR(second(random_product), second(dense_random_product),
                         (Tolerance{1e-9, 1e-9}));
    }
  }
}

TEST(RandomProduct, WhatChangedBeforeTheBackwardPassIsAnError) {
  const RandomInputs in(2, 3, 5, 9, 6, 5, 7);
  for (const auto map : {kExponential, kTrigonometric})
    for (const bool mask : {false, true}) {
      const auto q = in.q.clone().requires_grad_();
      auto how = in.way(map, at::ones({2, 9}, at::kBool));
      how.omega = how.omega.clone();
      const auto out = random_product(q, in.k, in.v, how);
      mask ? how.keep.logical_not_() : how.omega.mul_(2);
      EXPECT_NE(error_of([&] { out.sum().backward(); }).find("modified by an inplace operation"),
                std::string::npos)
          << mask;
    }
}

TEST(RandomProduct, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("random_product"), "");
  EXPECT_EQ(missing_kernels("random_product_backward"), "");
  const auto q = at::empty({2, 3, 7, 8}, at::kMeta).requires_grad_(),
             k = at::empty({2, 3, 9, 8}, at::kMeta), v = at::empty({2, 3, 9, 4}, at::kMeta);
  const auto y = random_product(q, k, v, {.omega = at::empty({1, 5, 8}, at::kMeta)});
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 3, 7, 4}));
  EXPECT_EQ(torch::autograd::grad({y.sum()}, {q})[0].sizes(), q.sizes());
}

TEST(RandomProduct, RefusesWhatDoesNotFit) {
  const auto x = at::zeros({1, 2, 3, 4}), omega = at::zeros({1, 5, 4});
  EXPECT_EQ(error_of([&] {
              random_product(x, at::zeros({1, 2, 3, 5}), x, {.omega = omega});
            }),
            "random_product: q is [1, 2, 3, 4], k [1, 2, 3, 5], v [1, 2, 3, 4]");
  EXPECT_EQ(
      error_of([&] { random_product(x, x, x, {.map = RandomMap::mirrored, .omega = omega}); }),
      "random_product: mirrored features are for random_window alone");
  EXPECT_EQ(error_of([&] {
              random_product(x, x, x, {.omega = at::zeros({3, 5, 4})});
            }),
            "random_product: omega is [3, 5, 4], but q is [1, 2, 3, 4]");
  EXPECT_EQ(error_of([&] {
              random_product(x, x, x, {.omega = omega, .sigma = at::zeros({2, 4})});
            }),
            "random_product: sigma is [2, 4], but q is [1, 2, 3, 4], and the map has none");
  EXPECT_EQ(error_of([&] {
              random_product(x, x, x, {.omega = omega, .keep = at::ones({1, 4}, at::kBool)});
            }),
            "random_product: keep is [1, 4] Bool, but k is [1, 2, 3, 4]");
  EXPECT_EQ(error_of([&] { random_product(x, x, x, {.omega = omega, .least = at::ones({2})}); }),
            "random_product: least is [2], but q is [1, 2, 3, 4]");
  const auto longer = at::zeros({1, 2, 5, 4});
  EXPECT_EQ(error_of([&] { random_product(x, longer, longer, {.omega = omega, .causal = true}); }),
            "random_product: causal, but q is [1, 2, 3, 4] and k [1, 2, 5, 4]");
}

}  // namespace
}  // namespace longbow
