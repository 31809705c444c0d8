#pragma once
// Rows beside the centroids of clusters, as k-means on unit rows needs them.
#include <ATen/core/Tensor.h>

namespace longbow {

struct CentroidCosines {
  at::Tensor cosines;  // [B, H, N, K]: x . mu_k / max(|x|, least)
  at::Tensor inverse;  // [B, H, N]: 1 / max(|x|, least); both in float32 at least
  at::Tensor nearest;  // [B, H, N] int64: the first k of the largest cosine
};
// x [B, H, N, D], centroids [H, K, D] without a gradient. Cosines alone have one, of x.
CentroidCosines centroid_cosines(const at::Tensor& x, const at::Tensor& centroids, double least);

// The sums of the rows x_i inverse_i by cluster, [H, K, D] in float32 at least, over all sequences;
// rows whose cluster is -1 are in none. Without a gradient.
at::Tensor centroid_sums(const at::Tensor& x, const at::Tensor& inverse, const at::Tensor& nearest,
                         int64_t clusters);

// The same in ATen alone, and the gradient of x.
CentroidCosines centroid_cosines_formula(const at::Tensor& x, const at::Tensor& centroids,
                                         double least);
at::Tensor centroid_cosines_formula_backward(const at::Tensor& dcosines, const at::Tensor& x,
                                             const at::Tensor& centroids, const at::Tensor& cosines,
                                             const at::Tensor& inverse, double least);
at::Tensor centroid_sums_formula(const at::Tensor& x, const at::Tensor& inverse,
                                 const at::Tensor& nearest, int64_t clusters);

}  // namespace longbow
