#pragma once
#include "longbow/nn/contract/part.h"
#include "longbow/nn/layers/modes.h"

namespace longbow {

// The damped moving average of Mega, of h components for each channel:
//   p = sigmoid(delta),  phi = 1 - p sigmoid(alpha),
//   s_t = phi s_{t-1} + p beta x_t,   y_t = sum_j eta_j s_tj / sqrt(h),
//   out = SiLU(y + omega x).
// Without a causal mask a second one, with parameters of its own, runs backwards; both count the
// token itself.
class MovingAverage : public Part {
 public:
  MovingAverage(const Site& site, int64_t components, bool bidirectional);
  Tensor operator()(const Tensor& x, const Mask& mask) const;  // [B, N, C] -> [B, N, C]
  // Adds its lane to the state of a mixer.
  void start(State& state, int64_t lanes) const;
  Tensor extend(const Tensor& x, State& state, const Context& context) const;

 private:
  Modes modes(int64_t directions) const;  // [directions, C, h]
  Modes past() const;                     // [C, h]

  int64_t width_, directions_;
  Tensor delta_, alpha_, beta_, eta_;  // [C or 2 C, h]
  Tensor omega_;                       // [C]
};

}  // namespace longbow
