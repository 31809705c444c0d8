#include <ATen/ATen.h>

#include "longbow/ops/exponential_features.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

const auto kOnGpu = at::TensorOptions(at::kFloat).device("cuda:0");

TEST(ExponentialFeaturesCuda, AreThoseOfTheCpu) {
  for (const auto& [b, h, n, width, rows] :
       {std::tuple{3, 2, 2, 64, 266}, {1, 1, 1, 1, 1}, {2, 3, 5, 7, 19}, {1, 2, 9, 20, 700}})
    for (const bool half : {false, true})
      for (const int64_t heads : {1, h})
        for (const bool mirrored : {false, true}) {
          SCOPED_TRACE(c10::str(n, " tokens, ", width, " x ", rows, half, mirrored));
          auto x = random_normal({b, n, h, width}, 1).transpose(1, 2);
          if (half) x = x.to(at::kBFloat16).to(at::kDouble);
          const auto omega = random_normal({heads, rows, width}, 2);
          auto keep = random_normal({b, n}, 3) > -1;
          keep[0][0] = false;
          const auto want = exponential_features(x, omega, 0.4, keep, Peak::token, mirrored);
          const auto there = x.to(kOnGpu.dtype(half ? at::kBFloat16 : at::kFloat));
          ASSERT_TRUE(has_exponential_kernel(there, Peak::token));
          const auto got = exponential_features(there, omega.to(kOnGpu), 0.4, keep.cuda(),
                                                Peak::token, mirrored);
          EXPECT_NEAR_TENSOR(got.phi.cpu().to(at::kDouble), want.phi, (Tolerance{1e-4, 1e-5}));
          EXPECT_NEAR_TENSOR(got.peak.cpu().to(at::kDouble), want.peak, (Tolerance{1e-4, 1e-5}));
        }
}

TEST(ExponentialFeaturesCuda, TakeMatricesAtOddAddresses) {
  const auto x = random_normal({2, 1, 5, 8}, 1), all = random_normal({1 + 6 * 8}, 2);
  const auto found = [&](const at::TensorOptions& options) {
    const auto omega = all.to(options).narrow(0, 1, 6 * 8).view({1, 6, 8});
    const auto both = exponential_features(x.to(options), omega, 0.4, {}, Peak::token);
    return at::cat({both.phi, both.peak}, -1).cpu().to(at::kDouble);
  };
  EXPECT_NEAR_TENSOR(found(kOnGpu), found(at::kDouble), (Tolerance{1e-4, 1e-5}));
}

TEST(ExponentialFeaturesCuda, HaveNoKernelWhereAGradientIsWanted) {
  const auto x = random_normal({1, 1, 2, 4}, 1).to(kOnGpu);
  EXPECT_TRUE(has_exponential_kernel(x, Peak::token));
  EXPECT_FALSE(has_exponential_kernel(x, Peak::head));
  EXPECT_FALSE(has_exponential_kernel(x.detach().requires_grad_(), Peak::token));
}

}  // namespace
}  // namespace longbow
