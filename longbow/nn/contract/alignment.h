#pragma once
#include "longbow/nn/contract/context.h"

namespace longbow {

// Moves the real tokens of every row to its front, and back again.
class Alignment {
 public:
  explicit Alignment(const Tensor& keep);                           // [B, N] bool
  Tensor forth(const Tensor& x) const { return moved(x, order_); }  // [B, N] or [B, N, C]
  Tensor back(const Tensor& x) const { return moved(x, back_); }
  // Where the tokens at these places stand now; -1 stays -1. [B, G] int64
  Tensor places(const Tensor& before) const;

 private:
  static Tensor moved(const Tensor& x, const Tensor& order);
  Tensor order_, back_;
};

}  // namespace longbow
