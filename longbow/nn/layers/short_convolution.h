#pragma once
#include "longbow/core/fields.h"
#include "longbow/nn/contract/part.h"

namespace longbow {

struct ConvolutionConfig {
  int64_t width = 0;
};
template <class V>
void fields(V& v, ConvolutionConfig& c) {
  v("width", c.width,
    "taps, for each channel, of a convolution over the tokens before the mixer, of its normalised "
    "input; causal models look back, others around; 0 = none",
    range(0, 1024));
}

// A convolution over the tokens, each channel with `width` taps of its own: over a token and those
// before it under a causal mask, else around it. Padded tokens count as zero and take no place.
class ShortConvolution : public Part {
 public:
  ShortConvolution(const Site& site, int64_t width);
  Tensor operator()(const Tensor& x, const Context& context) const;  // [B, N, C] -> [B, N, C]
  // Adds the lane of the last tokens to the state of a block.
  void start(State& state, int64_t lanes) const;
  Tensor extend(const Tensor& x, State& state, const Context& context) const;

 private:
  Tensor weight_, bias_;  // [C, K], [C]
};

}  // namespace longbow
