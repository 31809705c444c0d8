#pragma once
#include <array>
#include <string_view>

#include "longbow/core/fields.h"
#include "longbow/nn/contract/part.h"
#include "longbow/ops/silu_taps.h"

namespace longbow {

// Where a block has its convolution: its mixer reads what comes out, or it is a sub-layer with a
// residual of its own before the mixer.
enum class ConvolutionPlace { input, residual };
constexpr std::array<std::string_view, 2> names_of(ConvolutionPlace) {
  return {"input", "residual"};
}

struct ConvolutionConfig {
  int64_t width = 0, columns = 0;
  ConvolutionPlace place = ConvolutionPlace::input;
};
template <class V>
void fields(V& v, ConvolutionConfig& c) {
  v("width", c.width,
    "taps, for each channel, of a convolution over the tokens before the mixer; causal models look "
    "back, others around; 0 = none",
    range(0, 1024));
  v("place", c.place,
    "input: over the (normalised) input of the mixer, where there is one; residual: a sub-layer of "
    "its own before the mixer, with or without one");
  v("columns", c.columns,
    "tokens in a row of an image that the tokens are, row by row: the convolution then has width x "
    "width taps around a pixel; 0 = taps along the sequence",
    range(0, 1 << 20));
}

// OptionError when the options do not go together.
void check_convolution(const ConvolutionConfig& config);

// A convolution over the tokens, each channel with `width` taps of its own: over a token and those
// before it under a causal mask, else around it. Where tokens stand in `columns`, it has width x
// width taps around each of them and is never causal. Padded tokens count as zero and take no
// place.
class ShortConvolution : public Part {
 public:
  ShortConvolution(const Site& site, int64_t width, int64_t columns = 0);
  Tensor operator()(const Tensor& x, const Context& context) const;  // [B, N, C] -> [B, N, C]
  // SiLU of it over a token and those before it or, reversed, with the same taps over those after
  // it. Parts may be made of length 1 where one pass does both, makes_unit.
  Tensor activated(const Tensor& x, const Context& context, bool reversed,
                   const UnitParts& unit = {}) const;
  BothTaps activated_both(const Tensor& x, const Context& context,
                          const UnitParts& unit = {}) const;  // both directions
  bool makes_unit(const Tensor& x, const UnitParts& unit) const;
  // Adds the lane of the last tokens to the state of a block; not of an image.
  void start(State& state, int64_t lanes) const;
  Tensor extend(const Tensor& x, State& state, const Context& context) const;
  // SiLU of it, as activated.
  Tensor extend_activated(const Tensor& x, State& state, const Context& context,
                          const UnitParts& unit = {}) const;

 private:
  Tensor around(const Tensor& z, bool causal) const;  // with the bias

  int64_t columns_;
  Tensor weight_, bias_;  // [C, K] or [C, K, K], [C]
};

}  // namespace longbow
