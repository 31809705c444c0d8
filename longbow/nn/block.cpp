#include "longbow/nn/block.h"

#include <ATen/ATen.h>

#include "longbow/nn/recompute.h"

namespace longbow {
namespace {

class FeedForward : public Part {
 public:
  FeedForward(const Site& site, int64_t inner, Activation activation) : activation_(activation) {
    const int64_t width = site.shape.width;
    up_ = register_module("up", std::make_shared<Linear>(site.at("up"), width, inner));
    down_ = register_module("down", std::make_shared<Linear>(site.at("down"), inner, width));
  }
  Tensor operator()(const Tensor& x) const { return (*down_)(activated((*up_)(x))); }

 private:
  Tensor activated(const Tensor& x) const {
    if (activation_ == Activation::relu) return x.relu();
    return at::gelu(x, activation_ == Activation::gelu ? "none" : "tanh");
  }
  Activation activation_;
  std::shared_ptr<Linear> up_, down_;
};

class ResidualBlock : public BlockImpl {
 public:
  ResidualBlock(const Site& site, Mixer mixer, const BlockConfig& config)
      : config_(config),
        path_(site.path),
        shared_(site.shared),
        mixer_(register_module("mixer", std::move(mixer))) {
    const int64_t width = site.shape.width;
    const int64_t inner = config.feed_forward > 0 ? config.feed_forward : 4 * width;
    feed_forward_ = register_module(
        "feed_forward",
        std::make_shared<FeedForward>(site.at("feed_forward"), inner, config.activation));
    for (int i = 0; i < 2; ++i) {
      const auto name = i == 0 ? "mixer" : "feed_forward";
      if (config.residual == Residual::rezero)
        alpha_[i] = parameter(std::string(name) + "_scale", at::zeros({1}), {.decay = false});
      else
        norm_[i] = register_module(std::string(name) + "_norm", std::make_shared<LayerNorm>(width));
    }
  }

  Tensor forward(const Tensor& x, Context& context) override {
    if (config_.recompute != Recompute::block || !is_training()) return run(x, context);
    return recomputed([this](const Tensor& t, Context& c) { return run(t, c); }, x, context,
                      tensors_of(*this));
  }

  void start(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    mixer_->start(state, lanes, capacity, context);
  }

  Tensor extend(const Tensor& x, State& state, Context& context) override {
    const auto y =
        around(0, x, context, [&](const Tensor& t) { return mixer_->extend(t, state, context); });
    return fed(y, context);
  }

 private:
  Tensor run(const Tensor& x, Context& context) {
    return fed(around(0, x, context, [&](const Tensor& t) { return mixed(t, context); }), context);
  }

  Tensor mixed(const Tensor& x, Context& context) {
    if (config_.recompute != Recompute::attention || !is_training()) return (*mixer_)(x, context);
    return recomputed([this](const Tensor& t, Context& c) { return (*mixer_)(t, c); }, x, context,
                      tensors_of(*mixer_));
  }

  // The second run must find the gradients of what layers share, too.
  std::vector<Tensor> tensors_of(const Module& module) const {
    auto all = module.parameters();
    if (!shared_) return all;
    const auto more = shared_->parameters();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Tensor fed(const Tensor& x, Context& context) {
    return around(1, x, context, [&](const Tensor& t) { return (*feed_forward_)(t); });
  }

  template <class F>
  Tensor around(int i, const Tensor& x, Context& context, const F& body) {
    const bool pre = config_.residual == Residual::pre_norm;
    const auto inner = body(pre ? (*norm_[i])(x) : x);
    const auto site = path_ + (i == 0 ? ".mixer.dropout" : ".feed_forward.dropout");
    const auto y = dropout(inner, config_.dropout, is_training(), context, site);
    if (config_.residual == Residual::rezero) return x + alpha_[i] * y;
    return pre ? x + y : (*norm_[i])(x + y);
  }

  BlockConfig config_;
  std::string path_;
  std::shared_ptr<Shared> shared_;
  Mixer mixer_;
  std::shared_ptr<FeedForward> feed_forward_;
  std::shared_ptr<LayerNorm> norm_[2];
  Tensor alpha_[2];
};

}  // namespace

Block residual(const Site& site, Mixer mixer, const BlockConfig& config) {
  return std::make_shared<ResidualBlock>(site, std::move(mixer), config);
}

}  // namespace longbow
