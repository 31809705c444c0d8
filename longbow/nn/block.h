#pragma once
#include <array>
#include <string_view>

#include "longbow/core/fields.h"
#include "longbow/nn/mixer.h"

namespace longbow {

enum class Residual { pre_norm, post_norm, rezero };
constexpr std::array<std::string_view, 3> names_of(Residual) {
  return {"pre_norm", "post_norm", "rezero"};
}

enum class Activation { gelu, gelu_tanh, relu };
constexpr std::array<std::string_view, 3> names_of(Activation) {
  return {"gelu", "gelu_tanh", "relu"};
}

// What a block computes again in the backward pass instead of keeping it.
enum class Recompute { none, block, attention };
constexpr std::array<std::string_view, 3> names_of(Recompute) {
  return {"none", "block", "attention"};
}

struct BlockConfig {
  Residual residual = Residual::pre_norm;
  int64_t feed_forward = 0;
  Activation activation = Activation::gelu;
  double dropout = 0;
  Recompute recompute = Recompute::none;
};
template <class V>
void fields(V& v, BlockConfig& c) {
  v("residual", c.residual, "x + F(LN x), LN(x + F(x)), or x + alpha F(x) with a learned alpha");
  v("feed_forward", c.feed_forward,
    "width of the feed-forward layer; 0 = four times the model width", at_least(0));
  v("activation", c.activation, "of the feed-forward layer");
  v("dropout", c.dropout, "rate on the output of each sub-layer", range(0, 0.99));
  v("recompute", c.recompute,
    "activations to compute again in the backward pass instead of keeping them");
}

// A mixer and a feed-forward layer with their residuals.
Block residual(const Site& site, Mixer mixer, const BlockConfig& config);

}  // namespace longbow
