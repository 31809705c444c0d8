#include "longbow/nn/length_config.h"

#include <ATen/ATen.h>

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

void check(const LengthConfig& c, const Site& site, int64_t rank, int64_t longest) {
  const auto method = names_of(c.method)[static_cast<size_t>(c.method)];
  const bool convolution = c.method == Method::convolution,
             layerwise = c.sharing == Sharing::layerwise;
  TORCH_CHECK(longest > 0, "linformer: needs max_length, here or in the model");
  TORCH_CHECK(rank <= longest, "linformer: rank is ", rank, ", but max_length is ", longest);
  TORCH_CHECK(!convolution || longest % rank == 0,
              "linformer: convolution needs a max_length that rank divides, but they are ", longest,
              " and ", rank);
  TORCH_CHECK(has_weights(c) || c.sharing == Sharing::kv, "linformer: ", method,
              " has no weights to share; leave sharing at kv");
  TORCH_CHECK(!layerwise || c.rank_step == 0,
              "linformer: layers that share a projection have one rank; rank_step must be 0");
  TORCH_CHECK(!layerwise || site.shared,
              "linformer: layerwise sharing needs a stack that owns the projection");
  TORCH_CHECK(!c.bias || is_learned(c), "linformer: ", method, " has no bias");
  TORCH_CHECK(!c.depthwise || convolution, "linformer: depthwise is for convolution");
  TORCH_CHECK(c.start == LengthStart::xavier_normal || is_learned(c), "linformer: ", method,
              " learns nothing; start is for learnable and convolution");
  TORCH_CHECK(c.deviation == LengthDeviation::inverse_root || c.method == Method::fixed_random,
              "linformer: deviation is for fixed_random");
  TORCH_CHECK(c.scale == LengthScale::none || has_weights(c), "linformer: ", method,
              " has a scale of its own");
}

// Builds E and F one after the other.
class Builder {
 public:
  Builder(const Site& site, const LengthConfig& config, const Keep& keep)
      : site_(site), config_(config), keep_(keep) {
    const int64_t model = site.cross ? site.shape.source_length() : site.shape.max_length;
    longest_ = config.max_length > 0 ? config.max_length : model;
    rank_ = std::max<int64_t>(1, config.rank - site.layer * config.rank_step);
    check(config, site, rank_, longest_);
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
  const Keep& keep_;
  int64_t rank_, longest_;
};

}  // namespace

LengthProjections make_length_projections(const Site& site, const LengthConfig& config,
                                          const Keep& keep) {
  const Builder builder(site, config, keep);
  const bool apart = config.sharing == Sharing::none || config.sharing == Sharing::headwise;
  const auto e = builder.build("e");
  return {e, apart ? builder.build("f") : e, apart};
}

}  // namespace longbow
