#pragma once
#include <ATen/ATen.h>

#include "longbow/ops/feature_token.h"
#include "tests/support/tensor.h"

namespace longbow {

// What one token of decoding reads, in float64.
struct FeatureTokenInputs {
  at::Tensor q, k, v, sums, key_peak, peak;

  FeatureTokenInputs(int64_t b, int64_t h, int64_t features, int64_t width)
      : q(random_normal({b, h, 1, features}, 1).exp()),
        k(random_normal({b, h, 1, features}, 2).exp()),
        v(random_normal({b, h, 1, width}, 3)),
        sums(random_normal({b, h, features, width + 1}, 4)),
        key_peak(random_normal({b, h, 1, 1}, 5) * 3),
        peak(random_normal({b, h}, 6) * 3) {}
};

// With weights exp(peak) themselves: what is found, back from what it is relative to.
inline FeatureToken exact_feature_token(const FeatureTokenInputs& in, bool relative) {
  const auto each = [](const at::Tensor& t) { return t.exp().unsqueeze(-1).unsqueeze(-1); };
  const auto k = relative ? in.k * in.key_peak.exp() : in.k;
  const auto values = at::cat({in.v, at::ones_like(in.q.narrow(3, 0, 1))}, 3);
  const auto sums =
      (relative ? in.sums * each(in.peak) : in.sums) + at::einsum("bhnr,bhnd->bhrd", {k, values});
  return {at::einsum("bhnr,bhrd->bhnd", {in.q, sums}), sums, {}};
}
inline FeatureToken without_peak(const FeatureToken& found) {
  if (!found.peak.defined()) return found;
  const auto each = found.peak.exp().unsqueeze(-1).unsqueeze(-1);
  return {found.out * each, found.sums * each, {}};
}

}  // namespace longbow
