#pragma once
// The hierarchical attention of the library h-transformer-1d 0.1.9, for weights that were trained
// with it. It reads less than the paper does: a block of W tokens reads itself, and at level l,
// where queries and keys are means and values are sums of 2^l tokens, only the block with which it
// forms a pair. A causal query reads a level only if it is the last of its cluster.
//   y_i = sum_l e^{a_l - m_l} v_l / (sum_l sum_j e^{a_l - m_l} + epsilon),   m_l the largest a_l
// Maxima of the levels are not reconciled, and a cluster weighs no more than a token.
#include "longbow/nn/contract/mixer.h"

namespace longbow {

// q is scaled already; block is a power of two. The sequence is filled up to a power of two, and
// what was added is hidden.
Tensor sibling_attention(const Heads& heads, const Mask& mask, int64_t block, double epsilon);

}  // namespace longbow
