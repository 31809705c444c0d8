#pragma once
#include <array>
#include <string_view>

#include "longbow/nn/contract/linear.h"
#include "longbow/nn/contract/part.h"
#include "longbow/nn/layers/set_block.h"

namespace longbow {

enum class Pooling { mean, first, max, attention, pma, class_token, none };
constexpr std::array<std::string_view, 7> names_of(Pooling) {
  return {"mean", "first", "max", "attention", "pma", "class_token", "none"};
}

// Over real tokens only; a row without any gives zeros. All but `attention` and `pma`, which have
// weights. A class token is the first row.
Tensor pooled(const Tensor& x, const Tensor& keep, Pooling pooling);

// One row for a sequence: [B, N, C] -> [B, C], or each token as it is. `attention` weighs tokens by
// the softmax of their products with a learned query. `pma`, pooling by multi-head attention
// (Set Transformer, 2019, arXiv:1810.00825), is MAB(S, X) in the style of the paper for S learned
// seeds, which lie side by side, [B, S C]. A dense pooler is BERT's: a linear layer and tanh behind
// it, of C channels again.
class Pooler : public Part {
 public:
  // Of site.shape.width channels; site.shape.heads is that of `pma`.
  Pooler(const Site& site, Pooling pooling, bool dense = false, int64_t seeds = 1);
  Tensor operator()(const Tensor& x, const Tensor& keep) const;  // keep [B, N] bool or undefined
  int64_t width() const { return width_; }                       // of a row

 private:
  Tensor read(const Tensor& x, const Tensor& keep) const;
  Pooling pooling_;
  int64_t width_;
  Tensor query_, seeds_;  // [C], [S, C]
  std::shared_ptr<SetBlock> block_;
  std::shared_ptr<Linear> dense_;
};

}  // namespace longbow
