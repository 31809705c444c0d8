#pragma once
// Attention by features on a CPU: what feature_product and random_product do there. Features are
// formed tile by tile and not written to memory.
#include <array>

#include "longbow/ops/feature_product_formula.h"
#include "longbow/ops/random_product_formula.h"

namespace longbow {

// out, 1 / d (or sums of weights) and what the backward pass reads again of the keys, as
// feature_product returns them. Not causal.
Three feature_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const FeatureProduct& how);
std::array<at::Tensor, 3> feature_attention_backward(const at::Tensor& g, const at::Tensor& q,
                                                     const at::Tensor& k, const at::Tensor& v,
                                                     const at::Tensor& inverse,
                                                     const at::Tensor& sums,
                                                     const FeatureProduct& how);

// out and what the backward pass reads again. The exponential map, not causal, without `least`.
std::tuple<at::Tensor, at::Tensor> random_attention(const at::Tensor& q, const at::Tensor& k,
                                                    const at::Tensor& v, const RandomProduct& how);
std::array<at::Tensor, 3> random_attention_backward(const at::Tensor& g, const at::Tensor& q,
                                                    const at::Tensor& k, const at::Tensor& v,
                                                    const at::Tensor& kept,
                                                    const RandomProduct& how);

// Whether the kernels take these tensors: on a CPU, of one type, none of them empty.
bool has_feature_tiles(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

}  // namespace longbow
