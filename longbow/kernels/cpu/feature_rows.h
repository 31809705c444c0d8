#pragma once
// The steps of kernels/feature_attention.h where features are given, as rows: phi(x) = x.
#include "longbow/kernels/feature_attention.h"

namespace longbow::kernels {

template <class T>
bool are_given(const HeadFeatures<T>& features) {
  return !features.omega && !features.turns && features.map == FeatureMap::identity;
}

template <class T>
void sum_key_rows(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept;
template <class T>
void read_query_rows(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept;
template <class T>
void query_row_gradients(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept;
template <class T>
void key_row_gradients(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept;

}  // namespace longbow::kernels
