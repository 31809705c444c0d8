#pragma once
// A sequence in clusters of 2^l tokens at every level l < L.
#include <vector>

#include "longbow/nn/contract/mixer.h"

namespace longbow {

// Of a whole sequence: the levels 1, …, L - 1 one after another, each filled up to whole blocks of
// W clusters and followed by an empty block.
struct CoarseLevels {
  Tensor q, k, v;             // [B, H, T, D] means of the real tokens; q is the first token's when
                              // causal
  Tensor count;               // [B or 1, T] real tokens of a cluster, float32 at least
  std::vector<int64_t> rows;  // T in parts
};
CoarseLevels coarse_levels(const Heads& heads, const Mask& mask, int64_t levels, int64_t block);

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
