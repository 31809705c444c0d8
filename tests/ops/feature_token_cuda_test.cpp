#include <ATen/ATen.h>

#include "tests/ops/feature_tokens.h"

namespace longbow {
namespace {

const auto kOnGpu = at::TensorOptions(at::kFloat).device("cuda:0");

TEST(FeatureTokenCuda, IsItsDefinitionForAllShapes) {
  for (const auto& [b, h, features, width] :
       {std::tuple{2, 3, 266, 64}, {1, 1, 1, 1}, {3, 2, 17, 5}, {1, 2, 100, 255}})
    for (const bool relative : {false, true})
      for (const bool half : {false, true}) {
        SCOPED_TRACE(c10::str(features, " x ", width, relative, half));
        FeatureTokenInputs in(b, h, features, width);
        if (half) in.v = in.v.to(at::kBFloat16).to(at::kDouble);
        // Parts of wider rows, as decoding has them.
        const auto both = at::cat({in.q, in.k}, 2).to(kOnGpu), q = both.narrow(2, 0, 1),
                   k = both.narrow(2, 1, 1), sums = in.sums.to(kOnGpu),
                   v = at::constant_pad_nd(in.v, {8, 8})
                           .to(kOnGpu.dtype(half ? at::kBFloat16 : at::kFloat))
                           .narrow(3, 8, width);
        ASSERT_TRUE(has_feature_token_kernel(q, k, v, sums));
        const auto found =
            feature_token(q, k, v, sums, relative ? in.key_peak.to(kOnGpu) : at::Tensor(),
                          relative ? in.peak.to(kOnGpu) : at::Tensor());
        const FeatureToken wide = {found.out.cpu().to(at::kDouble),
                                   found.sums.cpu().to(at::kDouble),
                                   relative ? found.peak.cpu().to(at::kDouble) : at::Tensor()};
        const auto got = without_peak(wide), want = exact_feature_token(in, relative);
        EXPECT_NEAR_TENSOR(got.out, want.out, (Tolerance{1e-4, 1e-4}));
        EXPECT_NEAR_TENSOR(got.sums, want.sums, (Tolerance{1e-5, 1e-5}));
      }
}

TEST(FeatureTokenCuda, ForgetsNothingForAKeyThatIsNotThere) {
  const FeatureTokenInputs in(1, 2, 30, 8);
  const auto none = at::full({1, 2, 1, 1}, -1e30, kOnGpu);
  const auto q = in.q.to(kOnGpu), k = at::zeros_like(q), v = in.v.to(kOnGpu),
             sums = in.sums.to(kOnGpu), peak = in.peak.to(kOnGpu);
  const auto found = feature_token(q, k, v, sums, none, peak);
  EXPECT_NEAR_TENSOR(found.sums.cpu(), sums.cpu(), kExact);
  EXPECT_NEAR_TENSOR(found.peak.cpu(), peak.cpu(), kExact);
}

TEST(FeatureTokenCuda, LeavesOtherTypesToTheFormula) {
  const FeatureTokenInputs in(1, 2, 30, 8);
  const auto wide = kOnGpu.dtype(at::kDouble);
  const auto found = feature_token(in.q.to(wide), in.k.to(wide), in.v.to(wide), in.sums.to(wide),
                                   in.key_peak.to(wide), in.peak.to(wide));
  const FeatureToken here = {found.out.cpu(), found.sums.cpu(), found.peak.cpu()};
  EXPECT_NEAR_TENSOR(without_peak(here).out, exact_feature_token(in, true).out,
                     tolerance(at::kDouble));
}

}  // namespace
}  // namespace longbow
