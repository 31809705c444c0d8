#pragma once
#include "longbow/nn/contract/context.h"

namespace longbow {

// K-means of codes [B, H, N, bits], whose bits are -1 or 1, by the number of bits that differ. The
// first centres are real rows at even distances; a row goes to the nearest centre, of several to
// the first, and a centre takes the bits of most of its members. keep [B, N] has real rows first,
// or is undefined. -> [B, H, N] int64, `clusters` for hidden rows.
Tensor hamming_clusters(const Tensor& codes, const Tensor& keep, int64_t clusters,
                        int64_t iterations);

// [B, H, N, clusters]: 1 where a row is of a cluster.
Tensor memberships(const Tensor& cluster, int64_t clusters, at::ScalarType type);

}  // namespace longbow
