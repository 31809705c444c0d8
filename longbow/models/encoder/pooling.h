#pragma once
#include <array>
#include <string_view>

#include "longbow/nn/contract/linear.h"
#include "longbow/nn/contract/part.h"

namespace longbow {

enum class Pooling { mean, first, max, attention, none };
constexpr std::array<std::string_view, 5> names_of(Pooling) {
  return {"mean", "first", "max", "attention", "none"};
}

// Over real tokens only; a row without any gives zeros. All but `attention`, which has weights.
Tensor pooled(const Tensor& x, const Tensor& keep, Pooling pooling);

// One row for a sequence: [B, N, C] -> [B, C], or each token as it is. `attention` weighs tokens by
// the softmax of their products with a learned query. A dense pooler is BERT's: a linear layer and
// tanh behind it.
class Pooler : public Part {
 public:
  Pooler(const Site& site, Pooling pooling, bool dense = false);  // of site.shape.width channels
  Tensor operator()(const Tensor& x, const Tensor& keep) const;   // keep [B, N] bool or undefined

 private:
  Pooling pooling_;
  Tensor query_;  // [C]
  std::shared_ptr<Linear> dense_;
};

}  // namespace longbow
