#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

using at::Tensor;

// Softmax attention over some of the keys, kept so that parts over other keys can be added to it:
// the mean of the values by their weights, and the logarithm of the sum of these.
struct PartialSoftmax {
  Tensor mean;     // [..., N, D], zero where no key was visible
  Tensor log_sum;  // [..., N, 1], float32 at least; -infinity where no key was visible

  // scores [..., N, M], visible bool that broadcasts to them, v [..., M, D]. In float32 at least.
  static PartialSoftmax over(const Tensor& scores, const Tensor& visible, const Tensor& v);
  PartialSoftmax operator+(const PartialSoftmax& other) const;
  Tensor saw() const;  // [..., N, 1] bool: whether a key was visible
  // With f(x) instead of both tensors.
  template <class F>
  PartialSoftmax each(const F& f) const {
    return {f(mean), f(log_sum)};
  }
};

}  // namespace longbow
