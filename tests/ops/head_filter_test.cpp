#include "longbow/ops/head_filter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// The definition, one tap at a time.
Tensor defined(const Tensor& x, const Tensor& filter) {
  const int64_t taps = filter.size(1), side = taps / 2, n = x.size(2);
  const auto around = at::constant_pad_nd(x, {0, 0, side, side});
  auto out = at::zeros_like(x);
  for (int64_t t = 0; t < taps; ++t)
    out = out + filter.select(1, t).view({-1, 1, 1}) * around.narrow(2, t, n);
  return out;
}

TEST(HeadFilter, IsTheSumOverItsTaps) {
  for (const int64_t taps : {1, 3, 9, 33})
    for (const int64_t tokens : {1, 2, 7, 64, 150}) {
      const auto x = random_normal({2, 3, tokens, 4}, 1).requires_grad_(),
                 filter = random_normal({3, taps}, 2).requires_grad_(),
                 direction = random_normal(x.sizes(), 3);
      const auto got = head_filter(x, filter), want = defined(x, filter);
      EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble)) << tokens << " " << taps;
      const auto slopes = torch::autograd::grad({got}, {x, filter}, {direction}),
                 wanted = torch::autograd::grad({want}, {x, filter}, {direction});
      for (size_t i = 0; i < slopes.size(); ++i)
        EXPECT_NEAR_TENSOR(slopes[i], wanted[i], tolerance(at::kDouble)) << i;
    }
}

TEST(HeadFilter, IsRegistered) {
  EXPECT_EQ(missing_kernels("head_filter"), "");
  EXPECT_EQ(missing_kernels("head_filter_backward"), "");
}

TEST(HeadFilter, NamesArgumentsThatDoNotFit) {
  EXPECT_NE(error_of([&] {
              head_filter(at::zeros({2, 3, 4, 5}), at::zeros({3, 4}));
            }).find("head_filter: x is [2, 3, 4, 5], the filter [3, 4]"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
