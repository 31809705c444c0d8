#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/norms.h"

namespace longbow {
namespace {

const auto kNorm = [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  return layer_norm(x, w, b, 1e-5);
};

struct Kind {
  at::ScalarType type;
  double tolerance;
};

// The definition in float64 of numbers that were rounded to the type.
TEST(LayerNormCuda, IsItsDefinitionForAllWidthsAndTypes) {
  for (const auto& kind : {Kind{at::kFloat, 1e-5}, {at::kBFloat16, 1.6e-2}, {at::kHalf, 2e-3}})
    for (const int64_t width : {1, 4, 8, 12, 56, 64, 96, 256, 512, 520, 768, 1000, 1024, 2048})
      for (const int64_t rows : {1, 3, 1000}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width) + " " +
                     c10::toString(kind.type));
        NormInputs in(rows, width);
        for (auto* t : {&in.x, &in.weight, &in.bias, &in.dy}) *t = t->to(kind.type).to(at::kDouble);
        const auto want = normed(in, at::kDouble, norm_formula);
        const auto got = normed(in, at::TensorOptions(kind.type).device("cuda:0"), kNorm);
        const Tolerance each = {kind.tolerance, kind.tolerance};
        // Sums over rows are rounded once more at the end.
        const Tolerance sums = {kind.tolerance * std::sqrt(rows), kind.tolerance};
        EXPECT_NEAR_TENSOR(got.y, want.y, each);
        if (width > 1) EXPECT_NEAR_TENSOR(got.dx, want.dx, each);
        EXPECT_NEAR_TENSOR(got.dweight, want.dweight, sums);
        EXPECT_NEAR_TENSOR(got.dbias, want.dbias, sums);
      }
}

TEST(LayerNormCuda, SumsOverManyRowsAreExactAndTheSameEveryTime) {
  const NormInputs in(70001, 64);
  const auto options = at::TensorOptions(at::kFloat).device("cuda:0");
  const auto want = normed(in, at::kDouble, norm_formula);
  const auto first = normed(in, options, kNorm), again = normed(in, options, kNorm);
  EXPECT_NEAR_TENSOR(first.dweight, want.dweight, (Tolerance{1e-2, 1e-5}));
  EXPECT_NEAR_TENSOR(first.dbias, want.dbias, (Tolerance{1e-2, 1e-5}));
  EXPECT_NEAR_TENSOR(again.dweight, first.dweight, kExact);
  EXPECT_NEAR_TENSOR(again.dbias, first.dbias, kExact);
}

TEST(LayerNormCuda, TakesRowsWithGapsAndOddAddresses) {
  const auto all = random_normal({6, 3, 73}, 1).to(at::kFloat).cuda();
  const auto weight = at::ones({64}, all.options()), bias = at::zeros({64}, all.options());
  for (const auto& x : {all.narrow(2, 1, 64), all.transpose(0, 1).narrow(2, 0, 64),
                        all.flatten().narrow(0, 1, 640).view({10, 64})})
    EXPECT_NEAR_TENSOR(layer_norm(x, weight, bias, 1e-5).cpu(),
                       at::layer_norm(x, {64}, weight, bias, 1e-5).cpu(), (Tolerance{1e-5, 1e-5}));
}

TEST(LayerNormCuda, ReadsRowsAndGradientsThatStandApart) {
  const auto all = random_normal({2, 9, 192}, 1).to(at::kFloat).cuda(),
             slopes = random_normal({2, 9, 256}, 2).to(at::kFloat).cuda();
  const auto found = [&](bool apart) {
    const auto as = [&](const at::Tensor& x) { return apart ? x : x.contiguous(); };
    const auto x = as(all.narrow(2, 64, 64)).detach().requires_grad_(),
               weight = at::ones({64}, all.options()).requires_grad_(),
               bias = at::zeros({64}, all.options()).requires_grad_();
    return torch::autograd::grad({layer_norm(x, weight, bias, 1e-5)}, {x, weight, bias},
                                 {as(slopes.narrow(2, 128, 64))});
  };
  const auto got = found(true), want = found(false);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(want[i])) << i;
}

TEST(LayerNormCuda, HasASecondDerivative) {
  const NormInputs in(3, 8);
  const auto second = [&](const at::TensorOptions& options, const auto& norm) {
    const auto x = in.x.to(options).requires_grad_();
    const auto y = norm(x, in.weight.to(options), in.bias.to(options));
    const auto dx = torch::autograd::grad({(y * in.dy.to(options)).sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({dx.square().sum()}, {x})[0].cpu().to(at::kDouble);
  };
  EXPECT_NEAR_TENSOR(second(at::TensorOptions(at::kFloat).device("cuda:0"), kNorm),
                     second(at::kDouble, norm_formula), (Tolerance{1e-4, 1e-4}));
}

}  // namespace
}  // namespace longbow
