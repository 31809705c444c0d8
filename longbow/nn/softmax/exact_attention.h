#pragma once
#include "longbow/nn/softmax/tiles.h"

namespace longbow {

// softmax(q k^T / sqrt D) v by fused kernels or tiles: no N x M tensor is stored, unless somebody
// looks at the weights.
class ExactAttention : public AllPairs {
 public:
  using AllPairs::AllPairs;
  Tensor attend(const Heads& heads, Context& context) override;

 protected:
  Tensor read(const Heads& heads, const Seen& seen, Context& context) override;
};

}  // namespace longbow
