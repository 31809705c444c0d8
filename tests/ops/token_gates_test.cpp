#include "longbow/ops/token_gates.h"

#include <ATen/ATen.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor logistic(const Tensor& x) {
  return 1 / (1 + (-x).exp());
}
Tensor drawn(uint64_t seed) {
  return random_normal({2, 3, 5}, seed);
}

TEST(TokenGates, AreTheirDefinitions) {
  const auto x = drawn(1), update = drawn(2), candidate = drawn(3), added = drawn(4);
  EXPECT_NEAR_TENSOR(silu_product(x, update), x * update * logistic(update),
                     tolerance(at::kDouble));
  const auto c = candidate + added;
  EXPECT_NEAR_TENSOR(gated_step(x, update, candidate, added),
                     logistic(update) * (c * logistic(c) - x), tolerance(at::kDouble));
}

TEST(TokenGates, GradientsAreThoseOfDifferences) {
  const auto x = drawn(1).requires_grad_(), update = drawn(2).requires_grad_(),
             candidate = drawn(3).requires_grad_(), added = drawn(4).requires_grad_();
  EXPECT_TRUE(gradcheck([&] { return silu_product(x, update); }, {{"x", x}, {"update", update}}));
  EXPECT_TRUE(
      gradcheck([&] { return gated_step(x, update, candidate, added); },
                {{"x", x}, {"update", update}, {"candidate", candidate}, {"added", added}}));
}

TEST(TokenGates, AreOperatorsOfEveryKind) {
  EXPECT_EQ(missing_kernels("silu_product"), "");
  EXPECT_EQ(missing_kernels("gated_step"), "");
}

TEST(TokenGates, RefuseOtherShapesAndTypes) {
  const auto x = at::zeros({2, 3});
  EXPECT_EQ(error_of([&] {
              (void)silu_product(x, at::zeros({2, 4}));
            }),
            "silu_product: x is [2, 3] Float but gate is [2, 4] Float");
  EXPECT_EQ(error_of([&] { (void)gated_step(x, x, x, x.to(at::kDouble)); }),
            "gated_step: x is [2, 3] Float but added is [2, 3] Double");
  EXPECT_EQ(error_of([&] { (void)gated_step(x, x, at::zeros({3}), x); }),
            "gated_step: x is [2, 3] Float but candidate is [3] Float");
  EXPECT_EQ(error_of([&] { (void)gated_step(x, at::zeros({3}), x, x); }),
            "gated_step: x is [2, 3] Float but update is [3] Float");
}

}  // namespace
}  // namespace longbow
