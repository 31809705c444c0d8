#pragma once
#include <ATen/ATen.h>

#include "longbow/ops/cluster_softmax.h"
#include "tests/support/tensor.h"

namespace longbow {

// Arguments of cluster_softmax, as heads of tokens [B, N, H, width].
struct ClusterProblem {
  int64_t queries = 20, keys = 15, clusters = 4, top = 3, width = 6, value_width = 5;
  bool padded = false;  // some keys hidden, in the second sequence all; some queries of no cluster

  static constexpr int64_t kBatch = 2, kHeads = 3;
  at::Tensor rows(int64_t tokens, int64_t wide, uint64_t seed) const {
    return random_normal({kBatch, tokens, kHeads, wide}, seed).transpose(1, 2);
  }
  at::Tensor q() const { return rows(queries, width, 1); }
  at::Tensor k() const { return rows(keys, width, 2); }
  at::Tensor v() const { return rows(keys, value_width, 3); }
  at::Tensor dout() const { return rows(queries, value_width, 4); }
  // Small clusters and large ones; the last but one has no members.
  at::Tensor cluster() const {
    auto z = random_normal({kBatch, kHeads, queries}, 5).square().mul(3).to(at::kLong);
    z = z.remainder(clusters);
    if (clusters > 2) z = z.masked_fill(z == clusters - 2, 0);
    return padded ? z.masked_fill(random_normal(z.sizes(), 6) > 1, clusters) : z;
  }
  at::Tensor keep() const {
    if (!padded) return {};
    auto found = random_normal({kBatch, keys}, 7) > -0.5;
    found[1].fill_(false);
    return found;
  }
};

}  // namespace longbow
