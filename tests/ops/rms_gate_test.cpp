#include "longbow/ops/rms_gate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(RmsGate, IsItsFormulaAndHasItsGradient) {
  for (const bool gated : {false, true}) {
    const auto x = (random_normal({2, 3, 5}, 1) * 2).requires_grad_(),
               gain = random_normal({5}, 2).requires_grad_(),
               gate = random_normal({5}, 3).requires_grad_(),
               direction = random_normal({2, 3, 5}, 4);
    auto want = gain * x / ((x * x).sum(-1, true) / 5 + 1e-3).sqrt();
    if (gated) want = want / (1 + (-gate * x).exp());
    const auto got = rms_gate(x, gain, gated ? gate : Tensor(), 1e-3, at::kDouble);
    EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
    std::vector<Tensor> leaves = {x, gain};
    if (gated) leaves.push_back(gate);
    const auto slopes = torch::autograd::grad({got}, leaves, {direction}),
               wanted = torch::autograd::grad({want}, leaves, {direction});
    for (size_t i = 0; i < slopes.size(); ++i)
      EXPECT_NEAR_TENSOR(slopes[i], wanted[i], tolerance(at::kDouble)) << i;
  }
}

TEST(RmsGate, IsRegistered) {
  EXPECT_EQ(missing_kernels("rms_gate"), "");
  EXPECT_EQ(missing_kernels("rms_gate_backward"), "");
}

TEST(RmsGate, NamesArgumentsThatDoNotFit) {
  const auto x = at::zeros({2, 4}), gain = at::zeros({3});
  EXPECT_NE(error_of([&] {
              rms_gate(x, gain, {}, 1, at::kFloat);
            }).find("rms_gate: x is [2, 4], the gain [3], the gate []"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              rms_gate(x.to(at::kHalf), gain, {}, 1, at::kFloat);
            }).find("rms_gate: x is Half, but needs float32 or float64"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
