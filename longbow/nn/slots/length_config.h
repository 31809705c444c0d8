#pragma once
// The options of Linformer's projections along the sequence, and the projections built from them.
#include <map>
#include <string>

#include "longbow/core/fields.h"
#include "longbow/nn/slots/length_projection.h"

namespace longbow {

enum class LengthSharing { none, headwise, kv, layerwise };
constexpr std::array<std::string_view, 4> names_of(LengthSharing) {
  return {"none", "headwise", "kv", "layerwise"};
}

enum class LengthDeviation { inverse_root, inverse };
constexpr std::array<std::string_view, 2> names_of(LengthDeviation) {
  return {"inverse_root", "inverse"};
}

struct LengthConfig {
  int64_t rank = 64, rank_step = 0, max_length = 0;
  LengthMethod method = LengthMethod::learnable;
  LengthSharing sharing = LengthSharing::kv;
  bool bias = false, depthwise = false;
  LengthStart start = LengthStart::xavier_normal;
  LengthDeviation deviation = LengthDeviation::inverse_root;
  LengthScale scale = LengthScale::none;
};
template <class V>
void fields(V& v, LengthConfig& c) {
  v("rank", c.rank, "slots that keys and values are projected to", range(1, 65536));
  v("rank_step", c.rank_step, "a layer has this many slots fewer than the one before, at least 1",
    at_least(0));
  v("max_length", c.max_length, "longest sequence of keys; 0 = the model's max_length",
    at_least(0));
  v("method", c.method, "how a sequence becomes slots");
  v("sharing", c.sharing,
    "who shares a projection: nobody; the heads of a layer (E and F apart); also keys and values; "
    "all layers");
  v("bias", c.bias, "learnable: one number a slot; convolution: one a channel");
  v("depthwise", c.depthwise, "convolution: each channel by itself");
  v("start", c.start, "first values of learnable and convolution");
  v("deviation", c.deviation, "of fixed_random: 1 / sqrt(rank), or 1 / rank");
  v("scale", c.scale,
    "what a slot is divided by: nothing, the number of tokens, or the sum of their absolute "
    "weights");
}

// OptionError when the options do not go together, or not with the site; a longest sequence of 0 is
// not known yet.
void check_length_config(const LengthConfig& config, const Site& site);

// The options on which a projection depends that all layers share, with their values; "" = not
// known yet. Empty where they share none.
std::map<std::string, std::string> shared_length_options(const LengthConfig& config,
                                                         const Site& site);

// E for keys and F for values; one and the same unless they are apart.
struct LengthProjections {
  LengthProjection e, f;
  bool apart = false;
};

// Registers a tensor with the layer, as a parameter when it is learned, else as a buffer. What all
// layers share goes to site.shared instead.
using Registrar = std::function<Tensor(const std::string& name, const Tensor& value, bool learned)>;
LengthProjections make_length_projections(const Site& site, const LengthConfig& config,
                                          const Registrar& keep);

}  // namespace longbow
