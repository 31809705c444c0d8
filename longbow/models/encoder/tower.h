#pragma once
#include "longbow/models/encoder/encoder.h"

namespace longbow {

// Blocks that share what is theirs to share, with nothing carried in or out.
class Tower : public Part {
 public:
  Tower(const Site& site, const EncoderConfig& config);
  Tensor operator()(const Tensor& x, const Mask& mask, Context& context);
  // Decoding, by causal blocks: as a Stack.
  void start(State& state, int64_t lanes, int64_t capacity, Context& context);
  Tensor extend(const Tensor& x, State& state, const Mask& mask, Context& context);

 private:
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Stack> layers_;
};

}  // namespace longbow
