#pragma once
// Attention by features, out_i = sum_j phi(q_i) . phi(k_j) v_j, in passes over tokens that form the
// features on chip. Numbers are bfloat16, sums float32. Tokens are cut into spans: each span has
// its own sums S = sum phi v^T [R, D] with sum phi beside them, which are then folded. R and D are
// the features and channels of a head, padded to what feature_shape says.
#include <cstdint>

namespace longbow::kernels {

enum class FeatureMap { identity, relu, elu, square, exp };

// Of a tensor [B, H, N, width] whose last stride is 1, counted in numbers. Addresses, strides and
// widths allow reading 16 bytes at a time.
struct ByHead {
  void* data = nullptr;
  int64_t batch = 0, head = 0, token = 0;
};

// phi(x) = map(x), or [map(x) cos, map(x) sin] with a factor for each token. The features of a
// token that is not kept are 0.
struct Features {
  ByHead x;
  int64_t tokens, width;  // channels of x
  FeatureMap map;
  const float* turns;   // [1 or B, tokens, 2] or null
  int64_t turns_batch;  // from row to row, 0 where all have the same
  const bool* keep;     // [B, tokens] or null
};

constexpr int64_t kNarrow = 32;  // channels of a head up to which there are kernels of their own

struct FeatureShape {
  int64_t features = 0, depth = 0;  // R and D, padded; 0 = there is no kernel
  int64_t size() const { return features * (depth + 4); }
};
constexpr FeatureShape feature_shape(int64_t width, bool turned, int64_t depth) noexcept {
  if (width <= 0 || depth <= 0 || width % 8 != 0 || depth % 8 != 0) return {};
  if (depth <= kNarrow && width <= kNarrow) return {turned ? 2 * kNarrow : kNarrow, kNarrow};
  if (depth <= 64 && turned && width <= 64) return {128, 64};
  if (depth <= 64 && !turned && width <= 256)
    return {width <= 64 ? 64 : width <= 128 ? 128 : 256, 64};
  if (depth <= 128 && width <= 128) return {turned ? 256 : 128, 128};
  return {};
}
// Bytes of memory that the kernels need for a block of threads: of sums in two parts and of tiles
// of 64 tokens.
constexpr int64_t feature_memory(const FeatureShape& shape, bool turned, bool causal) noexcept {
  constexpr int64_t kTokens = 64, kGap = 8;  // behind each row
  const int64_t rows = shape.features + kGap, depth = shape.depth + kGap,
                width = shape.features / (turned ? 2 : 1) + kGap, tiles = causal ? 2 : 1;
  return 2 * (2 * shape.features * depth + kTokens * (tiles * (rows + depth) + width)) +
         4 * (shape.features + (2 + tiles) * kTokens);
}
// Tokens of a span where blocks walk over `tile` tokens at a time and a multiprocessor holds
// `resident` of them: such that blocks are done at about the same time on a large GPU, counting
// what each reads before its first tokens as much as a tile.
constexpr int64_t feature_span(int64_t tokens, int64_t groups, int64_t resident,
                               int64_t tile = 64) noexcept {
  constexpr int64_t kMultiprocessors = 132, kMostSpans = 64;
  const int64_t tiles = (tokens + tile - 1) / tile, slots = kMultiprocessors * resident;
  int64_t best = tiles, least = 0;
  for (int64_t spans = 1; spans <= kMostSpans && spans <= tiles; ++spans) {
    const int64_t length = (tiles + spans - 1) / spans,
                  time = (groups * spans + slots - 1) / slots * (length + 1);
    if (spans == 1 || time < least) {
      least = time;
      best = length;
    }
  }
  return best * tile;
}

constexpr int64_t feature_sums_span(const FeatureShape& shape, int64_t tokens,
                                    int64_t groups) noexcept {
  const int64_t resident = shape.depth == 32    ? (shape.features == 32 ? 4 : 3)
                           : shape.depth == 128 ? 1
                                                : (shape.features == 64 ? 4 : 2);
  return feature_span(tokens, groups, resident);
}

// sums[b h, span] = sum over its tokens of phi(x) [scale value, column].
struct FeatureSums {
  FeatureShape shape;
  Features x;
  ByHead value;
  const float *scale, *column;  // [B, H, tokens], null = 1
  float* sums;                  // [B H, spans, R, D + 4]: the column is at D, zeros behind it
  int64_t batch, heads, depth, span;
};

// to[b h] = the sum of all spans; or to[b h, span] = that of the spans before or after it, and then
// `to` may be `from`.
enum class FoldOrder { all, before, after };
struct FeatureFold {
  FoldOrder order;
  const float* from;            // [groups, spans, R, D + 4]
  float* to;                    // [groups, R, D + 4], or as `from`
  int64_t groups, spans, size;  // R (D + 4)
};

// With w_i = phi(x_i) . z and d_i = max(w_i + added, least) where normalised and else 1:
// out_i = phi(x_i) S / d_i. inverse_i = 1 / d_i, negative where d_i does not depend on w_i; w_i
// itself where it is not normalised.
struct FeatureRead {
  FeatureShape shape;
  Features x;
  const float* sums;  // [B H, R, D + 4]
  ByHead out;
  float* inverse;  // [B, H, tokens]
  int64_t batch, heads, depth;
  bool normalised;
  float added, least;
  int64_t span = 0;  // set by the launcher
};

// From dphi_i = S y_i + column_i z to the gradient of x. Of the keys, S and z are the gradients of
// the sums, y the values and column_i = 1; dy_i = phi(x_i) S beside. Of the queries y is the
// gradient of the output divided by d, and column_i = -(out_i . y_i), or 0 if d_i does not depend
// on w_i, is written. Without an inverse nothing is divided, and column, the gradient of w, is
// read.
struct FeatureGradient {
  FeatureShape shape;
  Features x;
  const float* sums;  // [B H, R, D + 4]
  ByHead y;
  bool queries;
  const float* inverse;  // [B, H, tokens] of queries, or null
  ByHead dx, dy;
  float* column;  // [B, H, tokens]
  int64_t batch, heads, depth;
  int64_t span = 0;  // set by the launcher
};

// Under a causal mask, of as many queries as keys: the sums are those before or after each span,
// and pairs within it are met one by one, 64 tokens by 64.
struct CausalFeatures {
  FeatureShape shape;
  Features x, other;     // those whose tokens the blocks walk over, and whom they meet
  ByHead y, other_y;     // of queries the gradient of the output, of keys the values
  const float* sums;     // [B H, spans, R, D + 4]
  const float* inverse;  // [B, H, tokens] of the queries, or null
  float* column;         // [B, H, tokens] of the queries
  int64_t batch, heads, depth, span;
};

// x are the queries and other the keys; y is not read.
struct CausalRead {
  CausalFeatures features;
  ByHead out;
  float* inverse;
  bool normalised;
  float added, least;
};

// As FeatureGradient.
struct CausalGradient {
  CausalFeatures features;
  bool queries;
  ByHead dx, dy;
};

void causal_read_cuda(const CausalRead& task, void* stream) noexcept;
void causal_gradient_cuda(const CausalGradient& task, void* stream) noexcept;
void feature_sums_cuda(const FeatureSums& task, void* stream) noexcept;
void feature_fold_cuda(const FeatureFold& task, void* stream) noexcept;
void feature_read_cuda(const FeatureRead& task, void* stream) noexcept;
void feature_gradient_cuda(const FeatureGradient& task, void* stream) noexcept;

}  // namespace longbow::kernels
