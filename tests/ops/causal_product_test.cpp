#include "longbow/ops/causal_product.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// tril(x y^T) z, the definition.
Tensor oracle(const Tensor& x, const Tensor& y, const Tensor& z, bool reversed) {
  const auto pairs = x.to(at::kDouble).matmul(y.to(at::kDouble).transpose(-2, -1));
  return (reversed ? pairs.triu() : pairs.tril()).matmul(z.to(at::kDouble));
}

struct Arguments {
  Tensor x, y, z;
};
Arguments arguments(int64_t length, int64_t p, int64_t q) {
  return {random_normal({2, 3, length, p}, 1), random_normal({2, 3, length, p}, 2),
          random_normal({2, 3, length, q}, 3)};
}

std::vector<Leaf> leaves(const Arguments& a) {
  return {{"x", a.x.requires_grad_()}, {"y", a.y.requires_grad_()}, {"z", a.z.requires_grad_()}};
}

TEST(CausalProduct, KernelAndFormulaAreTheDefinition) {
  for (const bool reversed : {false, true})
    for (const int64_t length : {1, 2, 17, 31, 32, 33, 63, 64, 65, 130})
      for (const auto& [p, q] : {std::pair<int64_t, int64_t>{5, 3}, {8, 9}, {1, 1}, {36, 70}}) {
        const auto [x, y, z] = arguments(length, p, q);
        const auto want = oracle(x, y, z, reversed);
        EXPECT_NEAR_TENSOR(causal_product(x, y, z, reversed), want, tolerance(at::kDouble));
        EXPECT_NEAR_TENSOR(causal_product_formula(x, y, z, reversed), want, tolerance(at::kDouble));
      }
}

TEST(CausalProduct, TakesStridesAndAnyNumberOfBatchDimensions) {
  const auto x = random_normal({4, 19, 2}, 1).transpose(0, 1),
             z = random_normal({3, 19, 4}, 2).permute({1, 2, 0});
  EXPECT_NEAR_TENSOR(causal_product(x, x, z), oracle(x, x, z, false), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(causal_product(x[0], x[0], z[0]), oracle(x[0], x[0], z[0], false),
                     tolerance(at::kDouble));
}

TEST(CausalProduct, LaterTokensHaveNoInfluenceNotEvenByRounding) {
  const auto [x, y, z] = arguments(130, 5, 3);
  auto later = y.clone();
  later.narrow(2, 70, 60).mul_(1e20);
  for (const auto product : {causal_product, causal_product_formula})
    EXPECT_TRUE(product(x, later, z, false)
                    .narrow(2, 0, 70)
                    .equal(product(x, y, z, false).narrow(2, 0, 70)));
}

TEST(CausalProduct, AnEmptySequenceGivesAnEmptyResult) {
  const auto none = at::zeros({2, 0, 4});
  EXPECT_EQ(causal_product(none, none, none).sizes(), none.sizes());
}

TEST(CausalProduct, Float32IsNearFloat64) {
  const auto [x, y, z] = arguments(200, 16, 17);
  const auto got = causal_product(x.to(at::kFloat), y.to(at::kFloat), z.to(at::kFloat));
  const auto want = oracle(x, y, z, false);
  EXPECT_NEAR_TENSOR(got, want, (Tolerance{.absolute = 1e-5 * want.abs().max().item<double>()}));
}

// A sum of ones in bfloat16 would stop at 256.
TEST(CausalProduct, HalfTypesAreSummedInFloat32) {
  const auto ones = at::ones({1, 600, 1}, at::kBFloat16);
  const auto y = causal_product(ones, ones, ones);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_NEAR_TENSOR(y[0][599], at::full({1}, 600.0), (Tolerance{.relative = 1.0 / 256}));
}

TEST(CausalProduct, ItsGradientIsThatOfDifferences) {
  for (const bool reversed : {false, true}) {
    const auto a = arguments(35, 3, 4);
    EXPECT_TRUE(gradcheck([&] { return causal_product(a.x, a.y, a.z, reversed); }, leaves(a)));
  }
}

TEST(CausalProduct, IsTwiceDifferentiable) {
  const auto a = arguments(9, 3, 2);
  const auto all = leaves(a);
  const auto weights = random_normal(a.z.sizes(), 4);
  const auto slopes = [&] {
    const auto sum = (causal_product(a.x, a.y, a.z) * weights).sum();
    const auto found =
        torch::autograd::grad({sum}, {a.x, a.y, a.z}, {}, true, /*create_graph=*/true);
    return at::cat({found[0].flatten(), found[1].flatten(), found[2].flatten()});
  };
  EXPECT_TRUE(gradcheck(slopes, all));
}

TEST(CausalProduct, RefusesWhatDoesNotFit) {
  const auto x = at::zeros({2, 5, 3}), z = at::zeros({2, 5, 4});
  EXPECT_EQ(error_of([&] { (void)causal_product(x[0][0], x[0][0], z[0][0]); }),
            "causal_product: x is [3], but needs [..., length, features]");
  EXPECT_EQ(error_of([&] {
              (void)causal_product(x, at::zeros({2, 6, 3}), z);
            }),
            "causal_product: x is [2, 5, 3] but y is [2, 6, 3]");
  EXPECT_EQ(error_of([&] {
              (void)causal_product(x, x, at::zeros({2, 6, 4}));
            }),
            "causal_product: x is [2, 5, 3] but z is [2, 6, 4]");
  EXPECT_EQ(error_of([&] { (void)causal_product(x, x, z.to(at::kDouble)); }),
            "causal_product: x, y, z are Float, Float, Double");
  const auto whole = x.to(at::kLong);
  EXPECT_EQ(error_of([&] { (void)causal_product(whole, whole, z.to(at::kLong)); }),
            "causal_product: no kernel for Long");
}

TEST(CausalProduct, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("causal_product"), "");
  const auto x = at::empty({2, 9, 3}, at::kMeta), z = at::empty({2, 9, 4}, at::kMeta);
  EXPECT_EQ(causal_product(x, x, z).sizes(), z.sizes());
}

TEST(CausalProduct, GoesOnAfterSums) {
  const auto x = random_normal({2, 7, 3}, 1), y = random_normal({2, 7, 3}, 2),
             z = random_normal({2, 7, 4}, 3);
  const auto whole = causal_product(x, y, z);
  for (const int64_t step : {1, 3}) {
    auto sums = at::zeros({2, 3, 4}, x.options());
    for (int64_t first = 0; first < 7; first += step) {
      const int64_t count = std::min(step, 7 - first);
      const auto part = [&](const at::Tensor& t) { return t.narrow(1, first, count); };
      EXPECT_NEAR_TENSOR(grown_causal_product(part(x), part(y), part(z), sums), part(whole),
                         (Tolerance{1e-12, 1e-12}));
    }
    EXPECT_NEAR_TENSOR(sums, y.transpose(1, 2).matmul(z), (Tolerance{1e-12, 1e-12}));
  }
}

}  // namespace
}  // namespace longbow
