#pragma once
#include "longbow/nn/contract/part.h"
#include "longbow/ops/time_steps.h"

namespace longbow {

// Steps in time that tokens set, one for each head, and what fades in them (Mamba-2):
//   Delta = softplus(dt + b),   ln decay = -exp(a) Delta.
// At first exp(a) is uniform in 1..16 and softplus(b) between 0.001 and 0.1, uniform in its
// logarithm.
class TimeSteps : public Part {
 public:
  TimeSteps(const Site& site, int64_t heads);
  // dt [..., H], float32 at least -> Delta and ln decay, of the same shape.
  Tensor steps(const Tensor& dt) const;
  Tensor log_decay(const Tensor& steps) const;
  // Both at once, of steps within limits and none of tokens that are not kept.
  TimeStepping limited(const Tensor& dt, const Tensor& keep, double least, double most) const;
  Tensor bias, log_rate;  // b, a: [H]
};

}  // namespace longbow
