#pragma once
// block_softmax in ATen alone: on the CPU, and on a GPU for what has no kernel.
#include <tuple>

#include "longbow/ops/block_rule.h"

namespace longbow {

// The arguments and results of the forward pass, and the gradients of its results.
struct BlockSoftmaxPast {
  at::Tensor q, k, v, bias, out, log_sum, dout, dlog_sum;
  bool wants_bias;  // whether the gradient of bias is asked for
};

std::tuple<at::Tensor, at::Tensor> block_softmax_formula(const at::Tensor& q, const at::Tensor& k,
                                                         const at::Tensor& v,
                                                         const at::Tensor& bias,
                                                         const BlockRule& rule);
// The gradients of q, k, v and bias; the last one is undefined where it is not asked for.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> block_softmax_formula_backward(
    const BlockSoftmaxPast& past, const BlockRule& rule);

}  // namespace longbow
