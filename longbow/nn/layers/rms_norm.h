#pragma once
#include "longbow/nn/contract/part.h"

namespace longbow {

// w x / sqrt(mean x^2 + epsilon) over the last dimension, each of `groups` equal parts of it by
// itself; the mean in float32 at least.
class RmsNorm : public Part {
 public:
  explicit RmsNorm(int64_t width, double epsilon = 1e-5, int64_t groups = 1);
  Tensor operator()(const Tensor& x) const;
  // (norm of x + norm of other) * silu(gate), where [..., W] may be several norms wide, each by
  // itself; other and gate may be undefined. Of one group.
  Tensor gated(const Tensor& x, const Tensor& other, const Tensor& gate) const;
  // Norm of x * silu(gate) + that of other * silu(gate), which may be undefined.
  Tensor of_gated(const Tensor& x, const Tensor& other, const Tensor& gate) const;
  Tensor weight;

 private:
  double epsilon_;
  int64_t groups_;
};

}  // namespace longbow
