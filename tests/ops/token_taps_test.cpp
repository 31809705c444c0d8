#include "longbow/ops/token_taps.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// The definition, one tap at a time.
Tensor defined(const Tensor& z, const Tensor& taps, int64_t left) {
  const int64_t n = z.size(1), k = taps.size(3), each = z.size(2) / taps.size(1);
  const auto around = at::constant_pad_nd(z, {0, 0, left, k - 1 - left});
  auto out = at::zeros_like(z);
  for (int64_t j = 0; j < k; ++j)
    out =
        out + taps.select(3, j).transpose(1, 2).repeat_interleave(each, 2) * around.narrow(1, j, n);
  return out;
}

TEST(TokenTaps, IsTheSumOverItsTaps) {
  for (const int64_t k : {1, 2, 5})
    for (const int64_t left : {int64_t{0}, k / 2, k - 1})
      for (const int64_t tokens : {1, 2, 9}) {
        const auto z = random_normal({2, tokens, 6}, 1).requires_grad_(),
                   taps = random_normal({2, 3, tokens, k}, 2).requires_grad_(),
                   direction = random_normal(z.sizes(), 3);
        const auto got = token_taps(z, taps, left), want = defined(z, taps, left);
        EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble)) << tokens << " " << k;
        const auto slopes = torch::autograd::grad({got}, {z, taps}, {direction}),
                   wanted = torch::autograd::grad({want}, {z, taps}, {direction});
        for (size_t i = 0; i < slopes.size(); ++i)
          EXPECT_NEAR_TENSOR(slopes[i], wanted[i], tolerance(at::kDouble)) << i;
      }
}

TEST(TokenTaps, IsRegistered) {
  EXPECT_EQ(missing_kernels("token_taps"), "");
  EXPECT_EQ(missing_kernels("token_taps_backward"), "");
}

TEST(TokenTaps, NamesArgumentsThatDoNotFit) {
  const auto z = at::zeros({2, 3, 4});
  EXPECT_NE(error_of([&] {
              token_taps(z, at::zeros({2, 3, 3, 5}), 0);
            }).find("token_taps: z is [2, 3, 4], the taps [2, 3, 3, 5]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              token_taps(z, at::zeros({2, 2, 3, 5}), 5);
            }).find("token_taps: left is 5 of 5 taps"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
