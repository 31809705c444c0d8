#pragma once
// Attention of one head by features, o_i = sum_j phi(q_i) . phi(k_j) v_j / d_i over all kept keys,
// on a CPU; ops/feature_product.h and ops/random_product.h define it. Features are formed tile by
// tile and never written to memory.
#include <cstdint>

#include "longbow/kernels/feature_product.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

// phi(x) = map(x), or [map(x) cos, map(x) sin] with a pair of factors for each token; or, with
// omega, exp(omega y - |y|^2 / 2) of y = scale x, relative to the largest exponent of a query, or
// of all keys.
template <class T>
struct HeadFeatures {
  Rows<const T> x;        // [tokens, width]
  int64_t tokens, width;  // E
  FeatureMap map;
  const T* turns;    // [tokens, 2] or null
  const bool* keep;  // [tokens] or null: features of others are 0
  const T* omega;    // [R, E] or null
  T scale;
  int64_t features() const { return turns ? 2 * width : width; }  // R, without omega
};

template <class T>
struct FeatureAttention {
  HeadFeatures<T> queries, keys;
  int64_t features, value_width;  // R, D
  Rows<const T> v;                // [M, D]
  bool normalised;
  T added, least;  // d = max(w + added, least) with w the sum of weights
  T* sums;         // feature_sums_size numbers: sum_j phi(k_j) v_j^T, sum_j phi(k_j), a peak
  Rows<T> out;     // [N, D]
  T* inverse;      // [N]: 1 / d, negative where d is `least`; or w, where not normalised
  // Only for gradients.
  Rows<const T> dout;
  const T* dweights;  // [N], the gradient of w, where not normalised
  T* dsums;           // as sums, without the peak
  Rows<T> dq, dk, dv;
};

template <class T>
int64_t feature_sums_size(int64_t features, int64_t value_width) noexcept;

// The tokens of tiles `first` … `last` - 1 of `feature_tiles`.
int64_t feature_tiles(int64_t tokens) noexcept;
// Adds keys to `sums`, which begin as clear_feature_sums leaves them; sums of several parts are
// joined by add_feature_sums.
template <class T>
void clear_feature_sums(const FeatureAttention<T>& task, T* sums) noexcept;
template <class T>
void add_feature_sums(const FeatureAttention<T>& task, const T* from, T* sums) noexcept;
template <class T>
void sum_keys(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept;
template <class T>
void read_sums(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept;
// dq, and what queries add to dsums; then dk and dv.
template <class T>
void query_gradients(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept;
template <class T>
void key_gradients(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept;

}  // namespace longbow::kernels
