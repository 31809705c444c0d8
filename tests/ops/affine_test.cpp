#include "longbow/ops/affine.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "tests/ops/affine_parts.h"
#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(Affine, IsItsDefinitionWithAndWithoutABias) {
  const auto x = random_normal({2, 3, 5}, 1), w = random_normal({4, 5}, 2),
             b = random_normal({4}, 3);
  const auto product = (x.unsqueeze(-2) * w).sum(-1);
  EXPECT_NEAR_TENSOR(affine(x, w, b), product + b, (Tolerance{1e-13, 1e-13}));
  EXPECT_NEAR_TENSOR(affine(x, w, {}), product, (Tolerance{1e-13, 1e-13}));
}

// y and the gradients of (y^3 dy) by x, weight and bias, with those of LibTorch's linear layer.
TEST(Affine, HasTheGradientsOfLibTorchsLayerBitForBit) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5}, {7, 5}, {2, 3, 5}, {0, 5}}) {
    SCOPED_TRACE(c10::str(shape));
    const auto gradients = [&](const auto& layer) {
      std::vector<at::Tensor> inputs = {random_normal(shape, 1), random_normal({4, 5}, 2),
                                        random_normal({4}, 3)};
      for (auto& t : inputs) t = t.to(at::kFloat).requires_grad_();
      const auto y = layer(inputs[0], inputs[1], inputs[2]);
      return torch::autograd::grad({y.pow(3).sum()}, inputs);
    };
    const auto got = gradients(affine);
    const auto want =
        gradients([](const auto& x, const auto& w, const auto& b) { return at::linear(x, w, b); });
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR_TENSOR(got[i], want[i], kExact) << i;
  }
}

TEST(Affine, HasGradientsWithoutABias) {
  const auto gradients = [](const auto& layer) {
    const std::vector<at::Tensor> inputs = {random_normal({2, 3, 5}, 1).requires_grad_(),
                                            random_normal({4, 5}, 2).requires_grad_()};
    return torch::autograd::grad({layer(inputs[0], inputs[1]).pow(3).sum()}, inputs);
  };
  const auto got = gradients([](auto& x, auto& w) { return affine(x, w, {}); });
  const auto want = gradients([](auto& x, auto& w) { return at::linear(x, w); });
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR_TENSOR(got[i], want[i], kExact) << i;
}

TEST(Affine, HasASecondDerivative) {
  const auto x = random_normal({5, 8}, 1).requires_grad_(), w = random_normal({8, 8}, 2),
             b = random_normal({8}, 3).requires_grad_();
  // y = x w^T + b, s = sum y^3: ds/db = 3 sum_i y_i^2, and its derivative by b is 6 sum_i y_i.
  const auto y = affine(x, w, b);
  const auto db = torch::autograd::grad({y.pow(3).sum()}, {b}, {}, true, true)[0];
  EXPECT_NEAR_TENSOR(torch::autograd::grad({db.sum()}, {b})[0], 6 * y.detach().sum(0),
                     (Tolerance{1e-12, 1e-12}));
}

TEST(Affine, OfKnownValuesHasItsGradientOnly) {
  const auto x = random_normal({2, 3, 5}, 1).requires_grad_(),
             w = random_normal({4, 5}, 2).requires_grad_(),
             b = random_normal({4}, 3).requires_grad_(),
             y = random_normal({2, 3, 4}, 4).requires_grad_(), dy = random_normal({2, 3, 4}, 5);
  const auto again = affine_again(y, x, w, b);
  EXPECT_TRUE(at::equal(again, y));
  const auto got = torch::autograd::grad({again}, {x, w, b, y}, {dy}, {}, false, true),
             want = torch::autograd::grad({affine(x, w, b)}, {x, w, b}, {dy});
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR_TENSOR(got[i], want[i], kExact) << i;
  EXPECT_FALSE(got[3].defined());
  EXPECT_FALSE(affine_again(y, x.detach(), w.detach(), {}).requires_grad());
  EXPECT_NE(error_of([&] {
              affine_again(x, x, w, b);
            }).find("affine_again: y is [2, 3, 5], x [2, 3, 5], weight [4, 5]"),
            std::string::npos);
}

TEST(Affine, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("affine"), "");
  const auto y = affine(at::empty({2, 3, 5}, at::kMeta), at::empty({4, 5}, at::kMeta), {});
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 3, 4}));
}

TEST(Affine, RefusesWhatDoesNotFit) {
  const auto x = at::zeros({2, 5}), w = at::zeros({4, 6});
  EXPECT_EQ(error_of([&] { affine(x, w, {}); }), "affine: x is [2, 5] but weight is [4, 6]");
  EXPECT_EQ(error_of([&] {
              affine(at::zeros({2, 6}), w, at::zeros({5}));
            }),
            "affine: weight is [4, 6] but bias is [5]");
}

TEST(AffineParts, AreColumnsOfOneProduct) {
  const auto x = random_normal({2, 3, 5}, 1), w = random_normal({7, 5}, 2),
             b = random_normal({7}, 3);
  const auto y = affine(x, w, b);
  for (const auto& given : {x, x.clone().requires_grad_()}) {
    const auto parts = affine_parts(given, w, b, {2, 4, 1});
    EXPECT_TRUE(at::equal(parts[0], y.narrow(-1, 0, 2)));
    EXPECT_TRUE(at::equal(parts[1], y.narrow(-1, 2, 4)));
    EXPECT_TRUE(at::equal(parts[2], y.narrow(-1, 6, 1)));
  }
}

TEST(AffineParts, GradientsAreThoseOfDifferences) {
  const auto x = random_normal({2, 3, 5}, 1).requires_grad_(),
             w = random_normal({7, 5}, 2).requires_grad_(),
             b = random_normal({7}, 3).requires_grad_();
  EXPECT_TRUE(gradcheck(
      [&] {
        const auto parts = affine_parts(x, w, b, {3, 3, 1});
        return parts[0] * parts[1].exp() + parts[2];
      },
      {{"x", x}, {"w", w}, {"b", b}}));
}

TEST(AffineParts, GradientsMayLieAnywhere) {
  expect_gradients_from_anywhere(at::kFloat, {1e-4, 1e-5});
}

}  // namespace
}  // namespace longbow
