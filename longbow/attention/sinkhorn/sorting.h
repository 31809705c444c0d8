#pragma once
// From scores of blocks to the weights by which they are mixed. Scores are [..., R, K]: how well
// source v suits row u. `allowed`, which broadcasts to them, says which sources a row may have;
// undefined: all.
#include "longbow/nn/contract/context.h"

namespace longbow {

// Rows and columns divided by their sums in turn, `iterations` times, in log space: nearly doubly
// stochastic. Zero where nothing is allowed.
Tensor sinkhorn_balanced(const Tensor& scores, const Tensor& allowed, int64_t iterations);

// The best source of each row, the best of the others, and so on. Each weighs as much as in a
// softmax over those that were left.
struct Picked {
  Tensor index;    // [..., R, P] int64
  Tensor weight;   // [..., R, P], zero where no source was left
  Tensor allowed;  // [..., R, P] bool: whether there was one
};
Picked best_sources(const Tensor& scores, const Tensor& allowed, int64_t count,
                    const std::string& site, const Context& context);

}  // namespace longbow
