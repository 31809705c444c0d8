#pragma once
// Attention by positive features that are known by their logarithms, phi(x) = exp(l): sums over
// keys are kept relative to the largest exponent among them, so that nothing overflows. Under a
// causal mask that is a running maximum.
#include "longbow/nn/features/feature_attention.h"

namespace longbow {

// With x' = D^(-1/4) x and Omega [1 or H, rows, D]: u = Omega x', where mirrored -u beside it, and
// |x'|^2 / 2. float32 at least.
struct Projected {
  Tensor u;     // [B, H, N, R]
  Tensor half;  // [B, H, N, 1]
};
Projected project(const Tensor& x, const Tensor& omega, bool mirrored);

// l_r = u_r - |x'|^2 / 2 - log(R) / 2. For normal rows E[phi(q) . phi(k)] = exp(q . k / sqrt D).
Tensor log_features(const Tensor& x, const Tensor& omega, bool mirrored);
// D ln D, at least 1; an even number where mirrored.
int64_t usual_features(int64_t width, bool mirrored);

// A padded key has the feature 0: minus infinity.
Tensor without_padded_logs(const Tensor& key_logs, const Tensor& keep);

constexpr double kNothingSeen = -1e30;  // a largest exponent before the first key

// phi(x) = exp(peak) phi, where peak is the largest exponent of each token and a constant to the
// gradient; kNothingSeen and zeros where keep [B, N] hides it.
struct PositiveFeatures {
  Tensor phi;   // [B, H, N, R]
  Tensor peak;  // [B, H, N, 1]
};
PositiveFeatures features_of_logs(const Tensor& logs, const Tensor& keep);
// Those of log_features; by a kernel on a CPU, and on a GPU where no gradient is wanted.
PositiveFeatures positive_features(const Tensor& x, const Tensor& omega, bool mirrored,
                                   const Tensor& keep);

// sum_j phi(q_i) . phi(k_j) [v_j, 1] = exp(query_peak + key_peak) [values, weights]; the peaks are
// constants to the gradient.
struct PositiveSums {
  FeatureSums sums;
  Tensor q;           // [B, H, N, R], phi(q) / exp(query_peak)
  Tensor query_peak;  // [B, H, N, 1]
  Tensor key_peak;    // [B, H, N or 1, 1]
};
// Causal sums are aligned at the end when N != M.
PositiveSums positive_sums(const PositiveFeatures& queries, const PositiveFeatures& keys,
                           const Tensor& v, bool causal);
void open_positive_sums(State& state, const Heads& empty, int64_t features);
PositiveSums grow_positive_sums(const PositiveFeatures& queries, const PositiveFeatures& keys,
                                const Tensor& v, State& state);

// The sums over the keys of a memory, which extensions read and do not change.
void keep_positive_memory(State& state, const PositiveFeatures& keys, const Tensor& v);
PositiveSums read_positive_memory(const PositiveFeatures& queries, const State& state);

}  // namespace longbow
