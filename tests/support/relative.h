#pragma once
// Scores of Transformer-XL by their definition, for the oracles of the rows that use them.
#include "tests/support/oracle.h"

namespace longbow::oracle {

// ((q + u) . k_j + (q + v) . W_r R_d(j)) / sqrt D of one query [B, H, D], keys [B, H, M, D] and
// their distances [M]: [B, H, M].
Tensor relative_scores(const torch::nn::Module& mixer, const Node& options, const Site& site,
                       const Tensor& q, const Tensor& keys, const Tensor& distances);

}  // namespace longbow::oracle
