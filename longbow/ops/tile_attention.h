#pragma once
// Attention in tiles of queries and keys on a CPU: block_softmax there, and what reads all keys. No
// scores are written to memory.
#include <tuple>

#include "longbow/kernels/tile_attention.h"
#include "longbow/ops/block_softmax_formula.h"

namespace longbow {

using kernels::TileWeights;

// From how many queries on tiles are faster than products of whole sequences, as in decoding.
constexpr int64_t kEnoughQueries = 8;
// Whether the kernels take these: on a CPU, as many sequences and heads of each.
bool has_tile_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);
// Whether they read these as they are: float32, float64 and, where the machine multiplies it,
// bfloat16. Other types are widened.
bool has_tile_products(const at::Tensor& x);

// As block_softmax_formula. Where the weights are no softmax, no sums are returned.
std::tuple<at::Tensor, at::Tensor> tile_attention(const at::Tensor& q, const at::Tensor& k,
                                                  const at::Tensor& v, const at::Tensor& bias,
                                                  const BlockRule& rule, TileWeights weights);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> tile_attention_backward(
    const BlockSoftmaxPast& past, const BlockRule& rule, TileWeights weights);

// out of the same with its gradient, as an operator: no bias, no second derivative.
at::Tensor attend_tiles(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const BlockRule& rule, TileWeights weights);

}  // namespace longbow
