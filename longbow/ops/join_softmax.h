#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// Softmax attention over some of the keys: the mean of their values by their weights, and the
// logarithm of the sum of these, so that parts over other keys can be added.
struct SoftmaxPart {
  at::Tensor out, log_sum;  // [..., N, D], [..., N, 1]; the latter -infinity where nothing was seen
};

// With a and b the logarithms of the sums: out = (e^a out_a + e^b out_b) / (e^a + e^b), log_sum =
// log (e^a + e^b); zero and -infinity where neither saw anything. Row i of a meets row i div
// `spread` of b, which may have more rows than that.
SoftmaxPart join_softmax(const SoftmaxPart& a, const SoftmaxPart& b, int64_t spread = 1);

// The same in ATen alone, and the gradients of out_a, log_a, out_b and log_b.
SoftmaxPart join_softmax_formula(const SoftmaxPart& a, const SoftmaxPart& b, int64_t spread);
struct JoinedGradients {
  SoftmaxPart a, b;
};
JoinedGradients join_softmax_formula_backward(const SoftmaxPart& gradient, const SoftmaxPart& a,
                                              const SoftmaxPart& b, int64_t spread);

}  // namespace longbow
