// Set Transformer (Lee et al., 2019, arXiv:1810.00825): attention blocks for sets, MAB of
// nn/layers/set_block.h. Tokens read all tokens, or through a few learned inducing points I [R, C]:
//   points = 0   SAB(X)  = MAB(X, X)
//   points = R   ISAB(X) = MAB(X, Z),   Z = MAB(I, X)
// A memory takes the place of the second X. Without points and in style plain it is softmax.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/layers/set_block.h"

namespace longbow {
namespace {

struct Config {
  int64_t points = 16;
  SetStyle style = SetStyle::reference;
  bool norms = true;
};
template <class V>
void fields(V& v, Config& c) {
  v("points", c.points, "inducing points that tokens are read through; 0 = tokens read tokens",
    range(0, 65536));
  v("style", c.style,
    "the authors' code: the query is the residual, the width is divided among the heads; the "
    "paper: the token is the residual; or attention alone, without residual and feed-forward");
  v("norms", c.norms, "a LayerNorm after the residual and after the feed-forward layer");
}

class SetMixer : public MixerImpl {
 public:
  SetMixer(const Site& site, const Config& config) {
    const int64_t width = site.shape.width, source = site.source_width();
    const auto block = [&](const std::string& name, int64_t read) {
      return register_module(
          name, std::make_shared<SetBlock>(site.at(name), width, read, config.style, config.norms));
    };
    if (config.points > 0) {
      points_ = parameter("points", initial_set_rows(site, "points", config.points));
      pack_ = block("pack", source);
    }
    read_ = block("read", config.points > 0 ? width : source);
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto& keep = context.mask.keep;
    const auto source = context.memory.defined() ? context.memory : x;
    if (!pack_) return (*read_)(x, source, keep, context);
    const auto z = (*pack_)(points_.unsqueeze(0), source, keep, context);  // [B, R, C]
    return (*read_)(x, z, {}, context);
  }

 private:
  std::shared_ptr<SetBlock> pack_, read_;
  Tensor points_;  // [R, C]
};

void check(const Config& c, const Site& site) {
  const auto& shape = site.shape;
  require_option(c.style != SetStyle::reference || shape.width % shape.heads == 0, "style",
                 c10::str("reference divides the width ", shape.width, " among ", shape.heads,
                          " heads, which leaves a rest"),
                 "take a width that is a multiple of the heads, or style: paper");
}

Promises promises(const Config& c) {
  return {.cross = true, .time = c.points > 0 ? 1.0 : 2.0};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<SetMixer>(site, c);
}

}  // namespace

Mechanism set_mechanism() {
  auto row = over_tokens<Config>(
      {.name = "set",
       .family = "low rank",
       .paper = "arXiv:1810.00825",
       .cost = "O(N R D)",
       .summary = "Attention blocks for sets: tokens read each other through a few learned points.",
       .exact = "points: 0 and style: plain: softmax",
       .variants = {{"paper", "{points: 5, style: paper}"},
                    {"plain", "{points: 5, style: plain}"},
                    {"pairs", "{points: 0, norms: false}"},
                    {"pairs_plain", "{points: 0, style: plain}"}}},
      promises, make, check);
  row.block = [](BlockConfig& config, const Node& options) {
    if (read<Config>(options, "set").style != SetStyle::plain)
      config.feed_forward.kind = FeedForwardKind::none;  // the mixer has its own
  };
  return row;
}

}  // namespace longbow
