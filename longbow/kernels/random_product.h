#pragma once
// Attention by random features: out_i = sum_j w_ij v_j / d_i, w_ij = phi(q_i) . phi(k_j), features
// formed on chip from projections u_r = omega_r . x in every pass. Numbers are bfloat16, sums
// float32. P is the number of projections, padded to a multiple of 16; D the channels of a head,
// padded to 64.
#include <cstdint>

#include "longbow/kernels/feature_product.h"

namespace longbow::kernels {

// exponential: phi_r = exp(f u_r - o) with numbers f, o of the token; R = P features.
// trigonometric: phi = scale [sin(f u), cos(f u)] with f = 1 / (|x| + 1e-3); R = 2 P.
// mirrored: phi = [exp(f u - o), exp(-f u - o)], exponential for omega and its negative; R = 2 P.
// Sums alone are formed of it here; random_window.h reads them.
enum class RandomMap { exponential, trigonometric, mirrored };

struct RandomFeatures {
  ByHead x;
  int64_t tokens, width, projections;  // how many of them are not padding
  RandomMap map;
  const void* omega;    // [1 or H, P, D]
  int64_t omega_head;   // from head to head, 0 where all have the same
  float factor, scale;  // f of the exponential maps; scale of the other
  const float* offset;  // o of each token, [B, H, tokens]; null: (f |x|)^2 / 2 + the peak
  const float* peaks;   // [B H, spans of peaks]: of the head, the largest counts
  int64_t peak_spans;
  const bool* keep;  // [B, tokens] or null; a token that is not kept has no features
};

struct RandomShape {
  static constexpr int64_t depth = 64;  // D
  int64_t projections = 0, sets = 1;    // P, 0 = there is no kernel; R / P
  int64_t size() const { return sets * projections * (depth + 4); }
};
// `width` channels of queries and keys, `depth` of values.
constexpr RandomShape random_shape(RandomMap map, int64_t projections, int64_t width,
                                   int64_t depth) noexcept {
  const bool two = map != RandomMap::exponential;
  // Matrices and sums have to stay in shared memory.
  const int64_t most = two ? 192 : 384;
  if (width <= 0 || depth <= 0 || width % 8 != 0 || depth % 8 != 0 || width > RandomShape::depth ||
      depth > RandomShape::depth || projections <= 0 || projections > most)
    return {};
  return {(projections + 15) / 16 * 16, two ? 2 : 1};
}
// Bytes of memory that the kernels need for a block of threads: of matrices, of sums in two parts
// and of tiles of 128 tokens. Under a causal mask the trigonometric map has kernels of their own.
constexpr int64_t random_memory(const RandomShape& shape) noexcept {
  constexpr int64_t kTokens = 128, kRow = RandomShape::depth + 8;
  const int64_t rows = shape.sets * shape.projections;
  return 2 * (3 * rows + 2 * kTokens) * kRow + 4 * (rows + 9 * RandomShape::depth + 3 * kTokens);
}
constexpr int64_t kCausalRandomMemory = 110 << 10;

// peaks[b h, span] = the largest exponent (without peaks) of its tokens, at least -1e30.
struct RandomPeaks {
  RandomShape shape;
  RandomFeatures x;
  float* peaks;
  int64_t batch, heads, span;
};

// sums[b h, span] = sum over its tokens of phi(x) [scale value, column].
struct RandomSums {
  RandomShape shape;
  RandomFeatures x;
  ByHead value;
  const float *scale, *column;  // [B, H, tokens], null = 1
  float* sums;                  // [B H, spans, R, D + 4]: the column is at D, zeros behind it
  int64_t batch, heads, depth, span;
  bool rounded;  // but the column are bfloat16: [B H, spans, R, D / 2 + 4]
};

// out_i = phi(x_i) S / d_i with d_i = max(w_i, least). Of the exponential map the offset of each
// query is its largest exponent, which is kept. inverse_i = 1 / d_i, negative where d_i does not
// depend on w_i.
struct RandomRead {
  RandomShape shape;
  RandomFeatures x;
  const float* sums;  // [B H, R, D + 4]
  ByHead out;
  float *inverse, *offset;  // [B, H, tokens]
  int64_t batch, heads, depth, span;
  float least;
  const float* least_of;  // [B] or null: in place of `least`
};

// As FeatureGradient. Of the trigonometric map `back` [1 or H, P, D] and `sigma` [H, D] make omega:
// back sigma.
struct RandomGradient {
  RandomShape shape;
  RandomFeatures x;
  const void* back;
  const float* sigma;
  const float* sums;  // [B H, R, D + 4]
  ByHead y;
  const float* inverse;  // null for keys
  ByHead dx, dy;
  float* column;  // [B, H, tokens], of queries
  float* dsigma;  // [B H, spans, D], of the trigonometric map
  int64_t batch, heads, depth, span;
};

// Under a causal mask, of the trigonometric map with P = 64: as CausalFeatures.
struct CausalRandom {
  RandomFeatures x, other;
  ByHead y, other_y;
  const float* sums;     // [B H, spans, 2 P, D + 4]
  const float* inverse;  // [B, H, tokens] of the queries
  float* column;         // [B, H, tokens] of the queries
  float* exact;          // out [B H, tokens, D]
  int64_t batch, heads, depth, span;
};
struct CausalRandomRead {
  CausalRandom features;
  ByHead out;
  float* inverse;
  const float* least;  // [B, tokens]
};
struct CausalRandomGradient {
  CausalRandom features;
  bool queries;
  const void* back;
  const float* sigma;
  ByHead dx, dy;
  float* dsigma;  // [B H, tokens / 64, D]
};

void causal_random_read_cuda(const CausalRandomRead& task, void* stream) noexcept;
void causal_random_gradient_cuda(const CausalRandomGradient& task, void* stream) noexcept;
void random_peaks_cuda(const RandomPeaks& task, void* stream) noexcept;
void random_sums_cuda(const RandomSums& task, void* stream) noexcept;
void random_read_cuda(const RandomRead& task, void* stream) noexcept;
void random_gradient_cuda(const RandomGradient& task, void* stream) noexcept;

}  // namespace longbow::kernels
