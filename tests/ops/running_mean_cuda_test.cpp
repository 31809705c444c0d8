#include "longbow/ops/running_mean.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/roundings.h"
#include "tests/ops/running_means.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// out, dgate, dk, dv; inputs lie beside each other, as one projection leaves them.
std::vector<Tensor> results(const Tensor& rows, const Tensor& g, const Tensor& keep,
                            const at::TensorOptions& options, bool dense) {
  const int64_t c = rows.size(2) / 3;
  const auto leaf = rows.to(options).requires_grad_();
  const auto part = [&](int64_t i) { return leaf.narrow(2, i * c, c); };
  const auto y = (dense ? dense_running_mean : running_mean)(
      part(0), part(1), part(2), keep.defined() ? keep.to(options.device()) : keep);
  const auto slopes = torch::autograd::grad({y}, {leaf}, {g.to(options)})[0];
  std::vector<Tensor> found = {y.detach()};
  for (int64_t i = 0; i < 3; ++i) found.push_back(slopes.narrow(2, i * c, c));
  for (auto& one : found) one = one.cpu().to(at::kDouble);
  return found;
}

TEST(RunningMeanCuda, IsItsDefinition) {
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const int64_t n : {1, 15, 16, 17, 100, 333})
      for (const int64_t c : {2, 64, 70})
        for (const bool masked : {false, true}) {
          SCOPED_TRACE(c10::str(n, " tokens, ", c, " channels, ", type, masked ? ", masked" : ""));
          const auto rows = (random_normal({2, n, 3 * c}, 1) * 2).to(type),
                     g = random_normal({2, n, c}, 2).to(type);
          const auto keep = masked ? random_normal({2, n}, 3) > 0.5 : Tensor();
          const auto got = results(rows, g, keep, at::TensorOptions(type).device("cuda:0"), false),
                     want = results(rows, g, keep, at::kDouble, true);
          for (size_t i = 0; i < got.size(); ++i)
            EXPECT_LT(roundings(got[i], want[i], n == 1 || masked), 2) << i;
        }
}

TEST(RunningMeanCuda, LargeKeysCancel) {
  const auto rows = random_normal({1, 300, 24}, 1) * 300, g = random_normal({1, 300, 8}, 2);
  const auto options = at::TensorOptions(at::kBFloat16).device("cuda:0");
  const auto rounded = rows.to(at::kBFloat16);
  const auto got = results(rounded, g, {}, options, false),
             want = results(rounded, g, {}, at::kDouble, true);
  EXPECT_LT(roundings(got[0], want[0], false), 2);
  for (const auto& one : got) EXPECT_TRUE(one.isfinite().all().item<bool>());
}

TEST(RunningMeanCuda, LaterTokensHaveNoInfluenceNotEvenByRounding) {
  const auto options = at::TensorOptions(at::kBFloat16).device("cuda:0");
  const auto rows = random_normal({1, 400, 192}, 1), g = random_normal({1, 400, 64}, 2);
  for (const int64_t n : {1, 20, 300}) {
    auto later = rows.clone(), slopes = g.clone();
    later.narrow(1, n, 400 - n).mul_(-5);
    slopes.narrow(1, n, 400 - n).fill_(0);
    const auto first = results(rows, slopes, {}, options, false),
               second = results(later, slopes, {}, options, false);
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_NEAR_TENSOR(second[i].narrow(1, 0, n), first[i].narrow(1, 0, n), kExact);
  }
}

TEST(RunningMeanCuda, LeavesOtherFormsToTheFormula) {
  const auto rows = random_normal({2, 20, 21}, 1), g = random_normal({2, 20, 7}, 2);
  const auto got = results(rows, g, {}, at::TensorOptions(at::kDouble).device("cuda:0"), false),
             want = results(rows, g, {}, at::kDouble, true);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{1e-9, 1e-9})) << i;
  const auto none = at::empty({0, 3, 4}, at::TensorOptions(at::kHalf).device("cuda:0"));
  EXPECT_EQ(running_mean(none, none, none).numel(), 0);
}

TEST(RunningMeanCuda, HidesNoNaN) {
  auto k = at::zeros({1, 40, 2}, at::TensorOptions("cuda:0").dtype(at::kBFloat16));
  const auto one = at::ones_like(k);
  k.select(1, 20).fill_(NAN);
  const auto bad = running_mean(one, k, one).isnan();
  EXPECT_FALSE(bad.narrow(1, 0, 20).any().item<bool>());
  EXPECT_TRUE(bad.narrow(1, 20, 20).all().item<bool>());
}

TEST(RunningMeanCuda, RefusesOtherShapes) {
  const auto x = at::zeros({2, 3, 4}, at::TensorOptions("cuda:0").dtype(at::kBFloat16));
  EXPECT_EQ(error_of([&] { running_mean(x, x.narrow(1, 0, 2), x); }),
            "running_mean: gate is [2, 3, 4] BFloat16, k [2, 2, 4] BFloat16, v [2, 3, 4] BFloat16");
}

}  // namespace
}  // namespace longbow
