#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/divided_softmax.h"
#include "tests/ops/roundings.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

const auto kOnGpu = at::TensorOptions(at::kBFloat16).device("cuda:0");

// Heads of a token beside each other, as products leave them, or one after the other.
Tensor laid_out(const Tensor& x, bool by_token) {
  return by_token ? x.transpose(1, 2).contiguous().transpose(1, 2) : x.contiguous();
}

// Values and gradients against the formula in float64.
void expect_near_formula(int64_t heads, int64_t tokens, int64_t width, const Tensor& by,
                         at::ScalarType type, bool learned, bool by_token) {
  SCOPED_TRACE(c10::str(heads, " heads, ", tokens, " tokens, ", width, " numbers, ",
                        by.defined() ? c10::str(by.sizes()) : "none"));
  const auto drawn = [&](uint64_t seed) {
    return (random_normal({2, heads, tokens, width}, seed) * 3).to(at::kBFloat16);
  };
  const auto run = [&](const at::TensorOptions& options, at::ScalarType divisor_type) {
    const auto given = [&](const Tensor& x) { return laid_out(x.to(options), by_token); };
    const auto scores = given(drawn(1)).requires_grad_();
    auto n = by.defined() ? by.to(type).to(options.device()).to(divisor_type) : by;
    if (learned) n = laid_out(n, by_token).requires_grad_();
    const auto y = divided_softmax(scores, n, 0.5, 0.7);
    if (options.device().is_cuda() && width % 8 == 0)  // as the kernel lays it out
      EXPECT_TRUE(y.transpose(1, 2).is_contiguous());
    std::vector<Tensor> leaves = {scores};
    if (learned) leaves.push_back(n);
    auto found = torch::autograd::grad({y}, leaves, {given(drawn(2))});
    found.push_back(y.detach());
    for (auto& one : found) one = one.cpu().to(at::kDouble);
    return found;
  };
  const auto got = run(kOnGpu, type), want = run(at::kDouble, at::kDouble);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(roundings(got[i], want[i], false), 2) << i;
}

TEST(DividedSoftmaxCuda, IsItsFormula) {
  for (const int64_t width : {8, 16, 40, 64, 128, 256})
    for (const bool by_token : {false, true}) {
      const auto all = random_normal({2, 3, 37, width}, 3).abs() + 0.1;
      expect_near_formula(3, 37, width, all, at::kBFloat16, true, by_token);
      expect_near_formula(3, 37, width, all.narrow(1, 0, 1), at::kFloat, false, by_token);
      expect_near_formula(3, 37, width, all.narrow(1, 0, 1).narrow(3, 0, 1), at::kFloat, false,
                          by_token);
      expect_near_formula(3, 37, width, {}, at::kFloat, false, by_token);
    }
  expect_near_formula(1, 1, 24, random_normal({2, 1, 1, 24}, 3).abs(), at::kBFloat16, true, false);
}

// Which a search for anomalies relies on.
TEST(DividedSoftmaxCuda, ShowsADivisorThatIsNoNumber) {
  const auto scores = random_normal({1, 2, 3, 16}, 1).to(kOnGpu).requires_grad_();
  const auto by = at::ones({1, 2, 3, 16}, kOnGpu);
  by[0][1][2][5].fill_(NAN);
  const auto y = divided_softmax(scores, by, 0.5);
  const auto slopes = torch::autograd::grad({y}, {scores}, {at::ones_like(y)})[0];
  for (const auto& x : {y.detach(), slopes}) {
    EXPECT_TRUE(x[0][1][2].isnan().all().item<bool>());
    EXPECT_EQ(x.isnan().sum().item<int64_t>(), 16);
  }
}

TEST(DividedSoftmaxCuda, LeavesOtherFormsToTheFormula) {
  const auto all = random_normal({2, 3, 7, 12}, 3).abs() + 0.1;
  expect_near_formula(3, 7, 12, all, at::kBFloat16, true, false);
  expect_near_formula(3, 7, 16, random_normal({2, 3, 7, 1}, 3).abs(), at::kFloat, true, false);
  EXPECT_EQ(divided_softmax(at::empty({0, 2, 3, 8}, kOnGpu), {}, 0).numel(), 0);
}

}  // namespace
}  // namespace longbow
