#pragma once
#include <vector>

#include "longbow/nn/contract/mixer.h"

namespace longbow {

// Blocks one after another. Reversible ones (all or none) get x as both of their streams and give
// the mean of the two; while training, the backward pass rebuilds their inputs from the last
// outputs, so that memory does not grow with the number of blocks (Gomez et al., 2017,
// arXiv:1707.04585).
class Stack : public Part {
 public:
  explicit Stack(std::vector<Block> blocks, std::shared_ptr<Shared> shared = {});
  Tensor operator()(const Tensor& x, Context& context);
  // One child state per block.
  void start(State& state, int64_t lanes, int64_t capacity, Context& context);
  Tensor extend(const Tensor& x, State& state, Context& context);
  size_t size() const { return blocks_.size(); }

 private:
  Tensor reversed_later(const Tensor& x, Context& context);
  std::vector<Block> blocks_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace longbow
