#include "longbow/nn/slots/length_config.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "longbow/core/option_error.h"

namespace longbow {
namespace {

using Method = LengthMethod;
using Sharing = LengthSharing;

bool is_learned(const LengthConfig& c) {
  return c.method == Method::learnable || c.method == Method::convolution;
}
bool has_weights(const LengthConfig& c) {
  return is_learned(c) || c.method == Method::fixed_random;
}

int64_t rank_of(const LengthConfig& c, const Site& site) {
  return std::max<int64_t>(1, c.rank - site.layer * c.rank_step);
}
int64_t longest_of(const LengthConfig& c, const Site& site) {
  return c.max_length > 0 ? c.max_length : site.source_length();
}

// Builds E and F one after the other.
class Builder {
 public:
  Builder(const Site& site, const LengthConfig& config, const Registrar& keep)
      : site_(site),
        config_(config),
        keep_(keep),
        rank_(rank_of(config, site)),
        longest_(longest_of(config, site)) {
    TORCH_CHECK(longest_ > 0, "linformer: needs max_length, here or in the model");
    TORCH_CHECK(config.sharing != Sharing::layerwise || site.shared,
                "linformer: layerwise sharing needs a stack that owns the projection");
  }

  LengthProjection build(const std::string& name) const {
    const auto scale = config_.method == Method::mean_pool ? LengthScale::mass : config_.scale;
    LengthProjection p = {config_.method, scale, rank_, longest_};
    if (!has_weights(config_)) return p;
    std::vector<int64_t> weight = {rank_, longest_}, bias = {rank_};
    if (config_.method == Method::convolution) {
      const int64_t width = site_.shape.head();
      weight = {width, config_.depthwise ? 1 : width, p.window()};
      bias = {width};
    }
    if (config_.sharing == Sharing::none)
      for (auto* sizes : {&weight, &bias}) sizes->insert(sizes->begin(), site_.shape.heads);
    p.weight = kept(name, weight, [&](const Site& site, const std::string& key) {
      return first_values(site, key, weight);
    });
    if (config_.bias)
      p.bias = kept(name + "_bias", bias,
                    [&](const Site&, const std::string&) { return at::zeros(bias); });
    return p;
  }

 private:
  Tensor first_values(const Site& site, const std::string& key, at::IntArrayRef shape) const {
    if (is_learned(config_))
      return initial_length_weight(site, key, shape, config_.method, config_.start);
    const auto rank = static_cast<double>(rank_);
    const bool root = config_.deviation == LengthDeviation::inverse_root;
    return initial_normal(site, key, shape, 1 / (root ? std::sqrt(rank) : rank));
  }

  // What all layers share does not depend on which of them asks first.
  Tensor kept(const std::string& name, at::IntArrayRef shape,
              const std::function<Tensor(const Site&, const std::string&)>& make) const {
    const bool learned = is_learned(config_);
    if (config_.sharing != Sharing::layerwise) return keep_(name, make(site_, name), learned);
    Site stack = site_;
    stack.path = "";
    const auto key = (site_.cross ? "linformer_cross_" : "linformer_") + name;
    const auto first = [&] { return make(stack, key); };
    return learned ? site_.shared->parameter(key, shape, first)
                   : site_.shared->buffer(key, shape, first);
  }

  const Site& site_;
  const LengthConfig& config_;
  const Registrar& keep_;
  int64_t rank_, longest_;
};

}  // namespace

void check_length_config(const LengthConfig& c, const Site& site) {
  const auto method = name_of(c.method);
  const bool convolution = c.method == Method::convolution,
             layerwise = c.sharing == Sharing::layerwise;
  const int64_t rank = rank_of(c, site), longest = longest_of(c, site);
  require_option(longest == 0 || rank <= longest, "rank",
                 c10::str("is ", rank, ", but max_length is ", longest), "lower rank");
  require_option(longest == 0 || !convolution || longest % rank == 0, "rank",
                 c10::str("is ", rank, ", which does not divide max_length ", longest,
                          ", as method: convolution needs"),
                 "take a divisor of max_length");
  require_option(has_weights(c) || c.sharing == Sharing::kv, "sharing",
                 c10::str("is for projections with weights, but method: ", method, " has none"),
                 "leave it out");
  require_option(!layerwise || c.rank_step == 0, "rank_step",
                 c10::str("is ", c.rank_step, ", but layers that share a projection have one rank"),
                 "leave it out, or set sharing: kv");
  require_option(!c.bias || is_learned(c), "bias",
                 c10::str("is for projections that are learned, but method: ", method, " is not"),
                 "leave it out");
  require_option(!c.depthwise || convolution, "depthwise", "is for method: convolution",
                 "leave it out");
  require_option(c.start == LengthStart::xavier_normal || is_learned(c), "start",
                 c10::str("is for projections that are learned, but method: ", method, " is not"),
                 "leave it out");
  require_option(c.deviation == LengthDeviation::inverse_root || c.method == Method::fixed_random,
                 "deviation", "is for method: fixed_random", "leave it out");
  require_option(c.scale == LengthScale::none || has_weights(c), "scale",
                 c10::str("is for projections with weights, but method: ", method, " has none"),
                 "leave it out");
}

std::map<std::string, std::string> shared_length_options(const LengthConfig& c, const Site& site) {
  if (c.sharing != Sharing::layerwise) return {};
  const int64_t longest = longest_of(c, site);
  return {{"rank", std::to_string(rank_of(c, site))},
          {"max_length", longest > 0 ? std::to_string(longest) : ""},
          {"method", name_of(c.method)},
          {"bias", c.bias ? "true" : "false"},
          {"depthwise", c.depthwise ? "true" : "false"},
          {"start", name_of(c.start)},
          {"deviation", name_of(c.deviation)}};
}

LengthProjections make_length_projections(const Site& site, const LengthConfig& config,
                                          const Registrar& keep) {
  const Builder builder(site, config, keep);
  const bool apart = config.sharing == Sharing::none || config.sharing == Sharing::headwise;
  const auto e = builder.build("e");
  return {e, apart ? builder.build("f") : e, apart};
}

}  // namespace longbow
