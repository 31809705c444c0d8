#pragma once
// Attention with features in place of exponentials: the weight of key j for query i is phi(q_i) .
// phi(k_j), so sums over keys are formed once. Queries and keys here are features already, [B, H,
// N, R] and [B, H, M, R].
#include "longbow/nn/contract/mixer.h"

namespace longbow {

// sum_j w_ij v_j and sum_j w_ij over the visible keys, added up in float32 at least; where the
// features are of a half type, the values may be too.
struct FeatureSums {
  Tensor values;   // [B, H, N, D]
  Tensor weights;  // [B, H, N, 1]
};

// A padded key loses its features; zeroing the key itself would leave phi(0) in the denominator.
Tensor without_padding(const Tensor& key_features, const Tensor& keep);

// Linear in N and M, or by the weights themselves where the keys are so few that this is less work;
// causal sums are aligned at the end when N != M.
FeatureSums feature_sums(const Tensor& q, const Tensor& k, const Tensor& v, bool causal);

// Features of x in bfloat16 where x is and its products are added up in float32: on a GPU.
Tensor narrowed(const Tensor& features, const Tensor& x);

// The running sums over keys are the whole decoding state.
void open_feature_sums(State& state, const Heads& empty, int64_t features);
FeatureSums grow_feature_sums(const Tensor& q, const Tensor& k, const Tensor& v, State& state);

// The sums over the keys of a memory, which extensions read and do not change.
void keep_memory_sums(State& state, const Tensor& k, const Tensor& v);
FeatureSums read_memory_sums(const Tensor& q, const State& state);

}  // namespace longbow
