#pragma once
// Attention by random features with exact weights in a window, of as many queries as keys: with
// w_ij the mean over features of phi(q_i) . phi(k_j),
//   M_ij = exp(f^2 q_i . k_j), -ahead <= i - j <= back;   w_ij, all other keys;   out = M v / M 1.
// Sums S of features over all keys are read by each query, less the products of those in its
// window, which are formed pair by pair. All is relative to exp(c_i) with c_i the largest exponent
// among the exact weights and the products of features: those of queries are relative to
//   o_i = c_i + |f q_i|^2 / 2 - m_i + log of the number of features
// with m_i the peak of the keys. Under a causal mask queries and keys are cut into spans: S is the
// sum over the keys before the span of a query, relative to their peak, and the others that it sees
// are met pair by pair, each relative to its own largest exponent p_j; m_i is the largest p_j that
// the query reads by features.
#include "longbow/kernels/causal_exponential.h"

namespace longbow::kernels {

// The maps exponential and mirrored. Numbers of tokens are [B H, tokens].
struct RandomWindow {
  static constexpr int64_t span = 128, side = 32;  // back and ahead are not above `side`
  static constexpr int64_t memory = 104960;        // bytes that a block shares
  RandomShape shape;
  RandomFeatures q, k;  // q has the offsets o, but to be read; k has peaks, of each span
  ByHead v;
  int64_t back, ahead;
  float *most, *offset;  // c, o
  float* inverse;        // 1 / d, negative where d does not depend on the weights
  float* exact;          // out [B H, tokens, D]
  const void* sums;      // [B H, spans, R, D] of bfloat16; one span where it is not causal
  const float* beside;   // and the sums of phi alone, [B H, spans, R]
  bool causal;           // then ahead is 0, k has offsets, and there are
  const float* peaks;    // p, -1e30 of a key that is not kept
  float* peak;           // m
  float* before;         // the peak of the keys before each span, [B H, spans]
  int64_t batch, heads, depth;
};
static_assert(RandomWindow::span == CausalExponential::span);

// Features are met 32 at a time.
constexpr RandomShape random_window_shape(RandomMap map, int64_t projections, int64_t width,
                                          int64_t depth) noexcept {
  auto shape = random_shape(map, projections, width, depth);
  if (shape.sets == 1) shape.projections = (shape.projections + 31) / 32 * 32;
  return shape;
}

// The sums of spans, added up.
struct RandomWindowFold {
  const float* from;  // [B H, spans, R, D + 4]
  void* sums;         // [B H, R, D]
  float* beside;      // [B H, R]
  int64_t groups, spans, rows;
};

// sum_offset, if causal: such that sums over queries are gradients of S.
struct RandomWindowRead {
  RandomWindow all;
  const float* largest;  // exponent of each query, without |f q|^2 / 2
  ByHead out;
  float* sum_offset;
};
// Writes the columns, -(out_i . y_i) with y = g / d.
struct RandomWindowQueries {
  RandomWindow all;
  ByHead g, dq;
  float* column;
};
// `sums` are their gradients, if causal those of the sums of each span.
struct RandomWindowKeys {
  RandomWindow all;
  ByHead g, dk, dv;
  const float* column;
};

void random_window_fold_cuda(const RandomWindowFold& task, void* stream) noexcept;
void random_window_read_cuda(const RandomWindowRead& task, void* stream) noexcept;
void random_window_queries_cuda(const RandomWindowQueries& task, void* stream) noexcept;
void random_window_keys_cuda(const RandomWindowKeys& task, void* stream) noexcept;

}  // namespace longbow::kernels
