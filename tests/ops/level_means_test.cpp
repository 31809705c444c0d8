#include "longbow/ops/level_means.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// Row by row, by the words of the header.
Tensor by_definition(const Tensor& x, const Tensor& keep, const Tensor& factors,
                     const std::vector<int64_t>& rows) {
  const auto real = keep.defined() ? x * keep.unsqueeze(1).unsqueeze(-1) : x;
  const int64_t n = x.size(2);
  std::vector<Tensor> all;
  int64_t first = 0;
  for (size_t l = 0; l < rows.size(); ++l) {
    const int64_t size = int64_t{2} << l;
    for (int64_t c = 0; c < rows[l]; ++c) {
      const int64_t begin = std::min(c * size, n), end = std::min(begin + size, n);
      const auto factor = factors.select(1, first + c).view({-1, 1, 1});
      all.push_back(real.narrow(2, begin, end - begin).sum(2) * factor);
    }
    first += rows[l];
  }
  return at::stack(all, 2);
}

TEST(LevelMeans, AMaskThatChangedBeforeTheBackwardPassIsAnError) {
  const auto x = random_normal({2, 3, 4, 5}, 1).requires_grad_();
  const auto keep = at::ones({2, 4}, at::kBool);
  const auto out = level_means(x, keep, at::ones({1, 3}, at::kDouble), {2, 1});
  keep.logical_not_();
  EXPECT_NE(error_of([&] { out.sum().backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(LevelMeans, AreThoseOfTheirTokens) {
  for (const int64_t n : {1, 2, 7, 16})
    for (const bool padded : {false, true}) {
      SCOPED_TRACE(c10::str(n, padded ? " tokens, some padded" : " tokens"));
      const auto x = random_normal({2, 3, n, 5}, 1).requires_grad_();
      const auto keep = padded ? at::arange(n) < at::tensor({n, n / 2}).unsqueeze(1) : Tensor();
      const std::vector<int64_t> rows = {9, 5, 2};
      const auto factors = random_normal({padded ? 2 : 1, 16}, 2);
      const auto got = level_means(x, keep, factors, rows),
                 want = by_definition(x, keep, factors, rows);
      EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
      const auto weights = random_normal(got.sizes(), 3);
      EXPECT_NEAR_TENSOR(torch::autograd::grad({got}, {x}, {weights})[0],
                         torch::autograd::grad({want}, {x}, {weights})[0], tolerance(at::kDouble));
    }
}

// 256 + 1 is 256 in bfloat16.
TEST(LevelMeans, AddUpInFloat32) {
  const auto x = at::ones({1, 1, 512, 8}, at::kBFloat16);
  const auto got = level_means(x, {}, at::ones({1, 511}), {256, 128, 64, 32, 16, 8, 4, 2, 1});
  EXPECT_EQ(got.scalar_type(), at::kBFloat16);
  EXPECT_EQ(got[0][0][510][0].item<double>(), 512);
}

TEST(LevelMeans, IsRegistered) {
  EXPECT_EQ(missing_kernels("level_means"), "");
  EXPECT_EQ(missing_kernels("level_means_backward"), "");
}

TEST(LevelMeans, NamesWhatDoesNotFit) {
  const auto x = at::zeros({1, 1, 6, 2});
  EXPECT_NE(error_of([&] {
              level_means(x, at::ones({1, 5}, at::kBool), at::ones({1, 3}), {3});
            }).find("level_means: x is [1, 1, 6, 2], keep [1, 5]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              level_means(x, {}, at::ones({1, 2}), {2});
            }).find("level_means: a level of 3 rows has room for 2"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              level_means(x, {}, at::ones({1, 2}), {3});
            }).find("level_means: factors are [1, 2] for 3 rows"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
