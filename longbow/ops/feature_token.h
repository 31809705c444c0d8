#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// One token of running sums over keys by features, as decoding takes it:
//   sums' = sums + k [v, 1]^T,   out = q sums'.
// With peaks, sums and k are relative to exponents: exp(peak) sums and exp(key_peak) k are meant.
// Then peak' = max(peak, key_peak), and both are made relative to it, so that no exponent is
// positive.
struct FeatureToken {
  at::Tensor out;         // [B, H, 1, D + 1], values and the sum of weights
  at::Tensor sums, peak;  // after the token
};
// q, k [B, H, 1, R], sums [B, H, R, D + 1], key_peak [B, H, 1, 1] and peak [B, H] of float32 or
// float64; v [B, H, 1, D] of any type. Peaks are both there or both undefined.
FeatureToken feature_token(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& sums, const at::Tensor& key_peak,
                           const at::Tensor& peak);

// Whether a GPU has a kernel for it, which reads and writes the sums once; it has no gradient.
bool has_feature_token_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const at::Tensor& sums);

// The same by ATen alone. The kernel is tested against it.
FeatureToken feature_token_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const at::Tensor& sums, const at::Tensor& key_peak,
                                   const at::Tensor& peak);

}  // namespace longbow
