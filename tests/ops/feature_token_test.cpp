#include "longbow/ops/feature_token.h"

#include <ATen/ATen.h>

#include "tests/ops/feature_tokens.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

TEST(FeatureToken, IsItsDefinition) {
  const FeatureTokenInputs in(2, 3, 7, 5);
  for (const bool relative : {false, true}) {
    const auto found =
        feature_token(in.q, in.k, in.v, in.sums, relative ? in.key_peak : at::Tensor(),
                      relative ? in.peak : at::Tensor());
    if (relative) {
      EXPECT_NEAR_TENSOR(found.peak, at::maximum(in.peak, in.key_peak.view({2, 3})), kExact);
    }
    const auto got = without_peak(found), want = exact_feature_token(in, relative);
    EXPECT_NEAR_TENSOR(got.out, want.out, tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(got.sums, want.sums, tolerance(at::kDouble));
  }
}

TEST(FeatureToken, IsAnOperatorWithoutAGradient) {
  EXPECT_EQ(missing_kernels("feature_token", false), "");
}

TEST(FeatureToken, NamesWhatDoesNotFit) {
  const FeatureTokenInputs in(2, 3, 7, 5);
  const auto message = [](const auto& q, const auto& v, const auto& sums, const auto& peak) {
    return error_of([&] { (void)feature_token(q, q, v, sums, peak, peak); });
  };
  EXPECT_EQ(message(in.q.expand({2, 3, 2, 7}), in.v, in.sums, in.peak),
            "feature_token: q is [2, 3, 2, 7], k [2, 3, 2, 7], v [2, 3, 1, 5]");
  EXPECT_EQ(message(in.q, in.v, in.sums.narrow(3, 0, 5), in.peak),
            "feature_token: sums is [2, 3, 7, 5], but q is [2, 3, 1, 7] and v [2, 3, 1, 5]");
  EXPECT_EQ(message(in.q, in.v, in.sums, in.peak.narrow(1, 0, 2)),
            "feature_token: key_peak is [2, 2], peak [2, 2]");
}

}  // namespace
}  // namespace longbow
