#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "longbow/nn/contract/mixer.h"
#include "longbow/nn/layers/feed_forward.h"
#include "longbow/nn/layers/short_convolution.h"

namespace longbow {

enum class Residual { pre_norm, post_norm, rezero, reversible };
constexpr std::array<std::string_view, 4> names_of(Residual) {
  return {"pre_norm", "post_norm", "rezero", "reversible"};
}

// What a block computes again in the backward pass instead of keeping it.
enum class Recompute { none, block, attention };
constexpr std::array<std::string_view, 3> names_of(Recompute) {
  return {"none", "block", "attention"};
}

struct BlockConfig {
  Residual residual = Residual::pre_norm;
  FeedForwardConfig feed_forward = {};
  ConvolutionConfig convolution = {};
  double dropout = 0, rezero_start = 0, norm_epsilon = 1e-5;
  Recompute recompute = Recompute::none;
  bool mixes = true;  // false: the mechanism is "none", and the feed-forward is the whole block
  bool norms_mixer = true;  // false: the first mixer normalises its input itself
};
template <class V>
void fields(V& v, BlockConfig& c) {
  v("residual", c.residual,
    "x + F(LN x), LN(x + F(x)), x + alpha F(x) with a learned alpha, or two streams whose "
    "activations are rebuilt in the backward pass");
  v("feed_forward", c.feed_forward.width,
    "width of the feed-forward layer; 0 = four times the model width", at_least(0));
  v("feed_forward_kind", c.feed_forward.kind,
    "two matrices, gated, one working unit in each group, or no such layer");
  v("activation", c.feed_forward.activation, "of the feed-forward layer");
  v("feed_forward_chunk", c.feed_forward.chunk,
    "tokens fed forward at a time, recomputed in the backward pass; 0 = all", at_least(0));
  v("sparse", c.feed_forward.sparse, "the sparse feed-forward layer");
  v("convolution", c.convolution, "over few tokens, before the mixer");
  v("dropout", c.dropout, "dropout rate on the output of each sub-layer", range(0, 0.99));
  v("rezero_start", c.rezero_start, "rezero: alpha at the start");
  v("norm_epsilon", c.norm_epsilon, "added to the variance in all norms", range(1e-15, 1));
  v("recompute", c.recompute,
    "what is computed again in the backward pass instead of kept: nothing, a whole block, or its "
    "mixer");
}

// OptionError when the options do not go together, in a model of that width and in a block that has
// a mixer or not.
void check_block(const BlockConfig& config, int64_t width, bool mixes);

// A mixer and a feed-forward layer with their residuals, before them a convolution where it has
// one. A reversible block works on two streams side by side, [B, N, 2 C]:
//   y1 = x1 + mixer(LN x2), y2 = x2 + feed_forward(LN y1).
Block residual(const Site& site, Mixer mixer, const BlockConfig& config);

// One of several mixers of a block. Each has its own part of what the context carries.
struct Mixing {
  std::string name;    // of its parameters and its state
  Mixer mixer;         // null: there is none
  bool cross = false;  // reads context.memory, the others read the tokens
};
// Several mixers one after another, each with its residual, then the feed-forward layer. In a
// reversible block the mixers are one branch: y1 = x1 + s + cross(LN(x2 + s)), s = mixer(LN x2).
Block residual(const Site& site, const std::vector<Mixing>& mixers, const BlockConfig& config);

}  // namespace longbow
