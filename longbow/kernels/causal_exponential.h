#pragma once
// Attention by random features of the exponential map under a causal mask. Queries and keys are cut
// into spans: what stands before a span is read by sums, what stands within it pair by pair.
// Exponents stay in range by peaks that no later key changes. With p_j the largest exponent of key
// j, o_i that of query i without |x|^2, c the largest p_j before the span of i and m_i that of all
// keys up to i,
//   w_ij = exp(p_j - m_i) phi_i . phi_j,   out_i = (exp(c - m_i) phi_i S + sum_j w_ij v_j) / d_i,
// where phi are relative to o_i and p_j and S, sums over keys before the span, to c.
#include "longbow/kernels/random_product.h"

namespace longbow::kernels {

// What the passes share; all numbers of tokens are [B H, tokens].
struct CausalExponential {
  static constexpr int64_t span = 128,
                           tiles = 36;  // of 16 queries and 16 keys that meet in a span
  RandomShape shape;
  RandomFeatures q, k;  // their offsets: of queries o, of keys p without |x|^2
  ByHead v;
  const float* peaks;       // p, -1e30 of a key that is not kept
  const float* span_peaks;  // [B H, spans], the largest p in each
  float* most;              // m
  float* before;            // c, [B H, spans]
  float* inverse;           // 1 / d, negative where d does not depend on the weights
  float* exact;             // out [B H, tokens, D]
  void* pairs;              // w within each span, [B H, spans, tiles, 16, 16] of bfloat16
  const void* sums;         // of each span, [B H, spans, P, D] of bfloat16
  const float* beside;      // and the sums of phi alone, [B H, spans, P]
  int64_t batch, heads, depth;
};

// q and k have no offsets yet. sum_offset: such that the sums of a span are relative to its peak.
// What nobody reads is null: key_offset, peaks and sum_offset, all at once.
struct ExponentialPeaks {
  RandomShape shape;
  RandomFeatures q, k;
  float *query_offset, *key_offset, *peaks, *sum_offset, *span_peaks;
  int64_t heads, groups;
};

// From the sums of each span, relative to its peak, to those of all before it, relative to c; or,
// where there is `before`, from the gradients of those to the gradients of the sums of each span.
struct ExponentialFold {
  const float* from;        // [B H, spans, P, D / 2 + 4], rounded as RandomSums has it
  const float* span_peaks;  // [B H, spans]
  const float* before;      // c, [B H, spans], or null
  void* sums;
  float* beside;
  int64_t groups, spans, projections;
};

// Also finds m and c. sum_offset: such that sums over queries are gradients of S.
struct CausalExponentialRead {
  CausalExponential all;
  ByHead out;
  float* sum_offset;
  float* log_sum;  // [B H, tokens] or null: log of the mean over features of sum_j phi_i . phi_j
  float least;
  const float* least_of;  // [B, tokens] or null: in place of `least`
};
// Writes the columns, dlog_sum_i / d_i - out_i . y_i with y = g / d.
struct CausalExponentialQueries {
  CausalExponential all;
  ByHead g, dq;
  const float* dlog_sum;  // [B H, tokens] or null: nobody reads log_sum
  float* column;
};
// `sums` are the gradients of the sums of each span.
struct CausalExponentialKeys {
  CausalExponential all;
  ByHead g, dk, dv;
  const float* column;
};

// Whether shared memory holds a span; not on every GPU.
bool causal_exponential_fits() noexcept;
void exponential_peaks_cuda(const ExponentialPeaks& task, void* stream) noexcept;
void exponential_fold_cuda(const ExponentialFold& task, void* stream) noexcept;
void causal_exponential_read_cuda(const CausalExponentialRead& task, void* stream) noexcept;
void causal_exponential_queries_cuda(const CausalExponentialQueries& task, void* stream) noexcept;
void causal_exponential_keys_cuda(const CausalExponentialKeys& task, void* stream) noexcept;

}  // namespace longbow::kernels
