#pragma once
// A sequence in clusters of 2^l tokens at every level l < L.
#include <vector>

#include "longbow/nn/contract/mixer.h"

namespace longbow {

// Of a whole sequence: sums over the real tokens of each cluster of a level.
struct ClusterSums {
  Tensor q, k, v;  // [B, H, n, D], float32 at least; q is the first token's when causal
  Tensor count;    // [B or 1, 1, n, 1] real tokens
};
std::vector<ClusterSums> cluster_sums(const Heads& heads, const Mask& mask, int64_t levels);

// Of a growing one: of each level the last S clusters are kept, the open one among them; cluster c
// stands in slot c mod S.
struct Clusters {
  Tensor own;    // [B, L, T] the cluster of each new token
  Tensor index;  // [B, L, S] the cluster in each slot, negative: none
  Tensor q;      // [B, H, L, T, D] the query of the first token in the token's cluster
  Tensor k, v;   // [B, H, L, S, D] means of the clusters that are complete; float32 at least
};

void open_clusters(State& state, const Heads& empty, int64_t levels, int64_t slots);
// Adds at most S tokens to their clusters.
Clusters grow_clusters(const Heads& heads, State& state, const Context& context);

}  // namespace longbow
