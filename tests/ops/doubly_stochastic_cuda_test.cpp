#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "longbow/ops/doubly_stochastic.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(DoublyStochasticCuda, IsTheFormulaForAllSizes) {
  for (const auto& size : std::vector<std::vector<int64_t>>{
           {2, 3, 1, 1}, {2, 3, 5, 7}, {64, 64}, {3, 33, 100}, {1, 128, 128}, {2, 130, 4}})
    for (const int64_t iterations : {0, 1, 5}) {
      SCOPED_TRACE(c10::str(at::IntArrayRef(size), ", ", iterations));
      const auto run = [&](at::Device device, at::ScalarType type) {
        const auto drawn = [&](uint64_t seed) { return random_normal(size, seed).to(at::kFloat); };
        const auto x = (drawn(1) * 8).to(device, type).requires_grad_();
        if (type == at::kFloat)
          EXPECT_EQ(has_doubly_stochastic_kernel(x), size[size.size() - 2] <= 128);
        const auto y = doubly_stochastic(x, iterations);
        const auto dx = torch::autograd::grad({y}, {x}, {drawn(2).to(device, type)})[0];
        return std::pair{y.detach().cpu().to(at::kDouble), dx.cpu().to(at::kDouble)};
      };
      const auto got = run(at::Device("cuda:0"), at::kFloat), want = run(at::kCPU, at::kDouble);
      EXPECT_NEAR_TENSOR(got.first, want.first, (Tolerance{1e-6, 2e-4}));
      EXPECT_LE((got.second - want.second).norm().item<double>(),
                1e-4 * want.second.norm().item<double>() + 1e-5);
    }
}

// As the formula has it, as long as no row and no column is hidden as a whole.
TEST(DoublyStochasticCuda, SomeNumbersMayBeHidden) {
  const auto x = random_normal({2, 33, 40}, 1), direction = random_normal(x.sizes(), 2);
  const auto hidden = (at::arange(33).unsqueeze(1) + at::arange(40)).remainder(3) > 0;
  const auto run = [&](at::Device device, at::ScalarType type) {
    const auto leaf = x.masked_fill(hidden, -INFINITY).to(device, type).requires_grad_();
    const auto y = doubly_stochastic(leaf, 4);
    const auto dx = torch::autograd::grad({y}, {leaf}, {direction.to(device, type)})[0];
    return std::pair{y.detach().cpu().to(at::kDouble), dx.cpu().to(at::kDouble)};
  };
  const auto got = run(at::Device("cuda:0"), at::kFloat), want = run(at::kCPU, at::kDouble);
  EXPECT_NEAR_TENSOR(got.first, want.first, (Tolerance{1e-6, 2e-4}));
  EXPECT_NEAR_TENSOR(got.second, want.second, (Tolerance{1e-5, 2e-4}));
}

}  // namespace
}  // namespace longbow
