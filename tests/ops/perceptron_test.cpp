#include "longbow/ops/perceptron.h"

#include <gtest/gtest.h>

#include "longbow/ops/philox.h"
#include "tests/ops/perceptrons.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

using at::Tensor;
using kernels::Curve;

Tensor defined(const Tensor& x, const PerceptronLayer& layer) {
  const auto u = x.matmul(layer.up.t()) + layer.up_bias;
  const auto noise = philox_uniform(layer.drop.key, layer.drop.site, u.sizes());
  const auto units =
      layer.curve == Curve::relu ? u.clamp_min(0) : u * (1 + (u / std::sqrt(2)).erf()) / 2;
  return (units * (noise >= layer.drop.rate) / (1 - layer.drop.rate)).matmul(layer.down.t()) +
         layer.down_bias;
}

TEST(Perceptron, IsOneHiddenLayerWithItsGradients) {
  for (const auto curve : {Curve::gelu, Curve::relu})
    for (const double rate : {0.0, 0.3}) {
      const PerceptronProblem p = {
          .tokens = 5, .units = 7, .width = 3, .out = 4, .curve = curve, .rate = rate};
      const auto want = perceptron_results(defined, p, at::kDouble, at::kCPU),
                 op = perceptron_results(perceptron, p, at::kDouble, at::kCPU),
                 formula = perceptron_results(perceptron_formula, p, at::kDouble, at::kCPU);
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_NEAR_TENSOR(op[i], want[i], tolerance(at::kDouble)) << i;
        EXPECT_NEAR_TENSOR(formula[i], want[i], tolerance(at::kDouble)) << i;
      }
    }
}

TEST(Perceptron, IsRegistered) {
  EXPECT_EQ(missing_kernels("perceptron"), "");
}

TEST(Perceptron, NamesArgumentsThatDoNotFit) {
  const auto x = at::zeros({2, 3}), up = at::zeros({5, 3}), bias = at::zeros({5}),
             down = at::zeros({4, 6});
  EXPECT_NE(error_of([&] {
              perceptron(x, {up, bias, down, at::zeros({4})});
            }).find("perceptron: x is [2, 3] and down is [4, 6], but needs [4, 5]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              perceptron(x, {bias, bias, down, bias});
            }).find("perceptron: x is [2, 3], up [5], down [4, 6]"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
