#include "longbow/ops/layer_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/norms.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

TEST(LayerNorm, IsItsDefinition) {
  const NormInputs in(5, 12);
  const auto want = normed(in, at::kDouble, norm_formula);
  const auto got =
      normed(in, at::kDouble, [](auto& x, auto& w, auto& b) { return layer_norm(x, w, b, 1e-5); });
  constexpr Tolerance kClose = {1e-12, 1e-12};
  EXPECT_NEAR_TENSOR(got.y, want.y, kClose);
  EXPECT_NEAR_TENSOR(got.dx, want.dx, kClose);
  EXPECT_NEAR_TENSOR(got.dweight, want.dweight, kClose);
  EXPECT_NEAR_TENSOR(got.dbias, want.dbias, kClose);
}

// In bfloat16 a sum of ones stops at 256.
TEST(LayerNorm, GradientsOfItsParametersAreSumsInFloat32) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto x = random_normal({4096, 8}, 1).to(type);
    const auto weight = at::ones({8}, type).requires_grad_(),
               bias = at::zeros({8}, type).requires_grad_();
    layer_norm(x, weight, bias, 1e-5).sum().backward();
    EXPECT_NEAR_TENSOR(bias.grad(), at::full({8}, 4096, type), kExact);
  }
}

TEST(LayerNorm, HasASecondDerivative) {
  const NormInputs in(3, 8);
  const auto second = [&](const auto& norm) {
    const auto x = in.x.detach().requires_grad_();
    const auto y = norm(x, in.weight, in.bias);
    const auto dx = torch::autograd::grad({(y * in.dy).sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({dx.square().sum()}, {x})[0];
  };
  EXPECT_NEAR_TENSOR(second([](auto& x, auto& w, auto& b) { return layer_norm(x, w, b, 1e-5); }),
                     second(norm_formula), (Tolerance{1e-10, 1e-10}));
}

TEST(LayerNorm, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("layer_norm"), "");
  EXPECT_EQ(missing_kernels("layer_norm_backward"), "");
  const auto weight = at::empty({5}, at::kMeta).requires_grad_();
  const auto x = at::empty({2, 3, 5}, at::kMeta);
  const auto y = layer_norm(x, weight, weight.detach(), 1e-5);
  EXPECT_EQ(y.sizes(), x.sizes());
  const auto gradient = torch::autograd::grad({y.sum()}, {weight})[0];
  EXPECT_EQ(gradient.sizes(), weight.sizes());
}

TEST(LayerNorm, RefusesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              layer_norm(at::zeros({2, 5}), at::ones({4}), at::ones({4}), 1e-5);
            }),
            "layer_norm: x is [2, 5] but weight is [4]");
  EXPECT_EQ(error_of([] {
              layer_norm(at::zeros({2, 5}), at::ones({5}), at::ones({4}), 1e-5);
            }),
            "layer_norm: weight is [5] but bias is [4]");
}

}  // namespace
}  // namespace longbow
