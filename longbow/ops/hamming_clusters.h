#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// K-means of the hashes of q [B, H, N, D] by the number of bits that differ: bit b is set where the
// product with row b of planes [bits, D + 1] exceeds the last number of that row. The first centres
// are real rows at even distances; a row goes to the nearest centre, of several to the first, and a
// centre takes the bits of most of its members. keep [B, N] bool has real rows first, or is
// undefined. -> [B, H, N] int64, `clusters` for hidden rows; no gradient.
at::Tensor hamming_clusters(const at::Tensor& q, const at::Tensor& planes, const at::Tensor& keep,
                            int64_t clusters, int64_t iterations);

at::Tensor hamming_clusters_formula(const at::Tensor& q, const at::Tensor& planes,
                                    const at::Tensor& keep, int64_t clusters, int64_t iterations);

// [B, H, N, clusters]: 1 where a row is of a cluster.
at::Tensor memberships(const at::Tensor& cluster, int64_t clusters, at::ScalarType type);

}  // namespace longbow
