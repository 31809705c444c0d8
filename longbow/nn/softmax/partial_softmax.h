#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

using at::Tensor;

// Softmax attention over some of the keys, kept so that parts over other keys can be added to it:
// the largest score, and sums of weights relative to it. The result does not depend on the largest
// score, hence that has no gradient.
struct PartialSoftmax {
  Tensor top, total, sum;  // [..., N, 1], [..., N, 1], [..., N, D]; float32 at least

  // scores [..., N, M], visible bool that broadcasts to them, v [..., M, D].
  static PartialSoftmax over(const Tensor& scores, const Tensor& visible, const Tensor& v);
  // Of a part that was read already: out [..., N, D] and the logarithm of its sum of weights [...,
  // N], -infinity where no key was visible.
  static PartialSoftmax of(const Tensor& out, const Tensor& log_sum);
  PartialSoftmax operator+(const PartialSoftmax& other) const;
  Tensor mean() const;  // [..., N, D], zero where no key was visible
};

}  // namespace longbow
