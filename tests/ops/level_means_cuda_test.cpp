#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/level_means.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

struct Sizes {
  int64_t tokens, levels, width;
  bool padded;
};

// Means and the gradient for numbers that were rounded to a type.
std::pair<Tensor, Tensor> results(const Sizes& size, at::ScalarType rounded,
                                  at::ScalarType computed, at::Device device) {
  const auto rounds = [&](const Tensor& x) { return x.to(rounded).to(device, computed); };
  std::vector<int64_t> rows;
  int64_t n = size.tokens, all = 0;
  for (int64_t l = 0; l < size.levels; ++l) {
    n = (n + 1) / 2;
    rows.push_back(n + 3);
    all += n + 3;
  }
  const auto x = rounds(random_normal({2, 3, size.tokens, size.width}, 1)).requires_grad_();
  const auto keep =
      size.padded
          ? (at::arange(size.tokens) < at::tensor({size.tokens, size.tokens / 3}).unsqueeze(1))
                .to(device)
          : Tensor();
  const auto factors = random_normal({size.padded ? 2 : 1, all}, 2)
                           .to(device, computed == at::kDouble ? at::kDouble : at::kFloat);
  const auto y = level_means(x, keep, factors, rows);
  const auto dx = torch::autograd::grad({y}, {x}, {rounds(random_normal(y.sizes(), 3))})[0];
  return {y.detach().cpu().to(at::kDouble), dx.cpu().to(at::kDouble)};
}

TEST(LevelMeansCuda, AreTheFormulaForAllSizesAndTypes) {
  for (const auto& [type, error] : {std::pair{at::kBFloat16, 1.6e-2}, {at::kHalf, 2e-3}})
    for (const auto& size : {Sizes{1, 1, 8, false},
                             {64, 6, 64, false},
                             {100, 3, 24, true},
                             {333, 9, 64, true},
                             {65, 4, 128, false},
                             {40, 5, 12, true}}) {
      SCOPED_TRACE(c10::str(size.tokens, " x ", size.width, ", ", size.levels, " ", type));
      const auto got = results(size, type, type, at::Device("cuda:0")),
                 want = results(size, type, at::kDouble, at::kCPU);
      EXPECT_NEAR_TENSOR(got.first, want.first, (Tolerance{error, error}));
      EXPECT_NEAR_TENSOR(got.second, want.second, (Tolerance{error, error}));
    }
}

}  // namespace
}  // namespace longbow
