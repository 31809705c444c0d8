#pragma once
#include "longbow/nn/contract/part.h"

namespace longbow {

class LayerNorm : public Part {
 public:
  explicit LayerNorm(int64_t width, double epsilon = 1e-5);
  Tensor operator()(const Tensor& x) const;
  double epsilon() const { return epsilon_; }
  Tensor weight, bias;

 private:
  double epsilon_;
};

}  // namespace longbow
