#pragma once
#include "longbow/nn/contract/context.h"

namespace longbow {

// What a model remembers of texts that go on from one batch to the next: row b of a batch continues
// lane b. It stays where it is, so that a replayed step finds it, and has no gradient.
class Lanes {
 public:
  explicit Lanes(State empty);
  State take(int64_t rows) const;  // a copy of the first lanes
  void put(const State& state);    // what has become of them
  void clear();                    // every text begins anew
  // By name, for a checkpoint; these are the lanes themselves.
  Tensors saved() const;
  // UserError where a lane is missing or has another shape.
  void load(const Tensors& saved);

 private:
  State state_;
};

}  // namespace longbow
