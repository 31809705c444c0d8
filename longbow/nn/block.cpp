#include "longbow/nn/block.h"

#include <ATen/ATen.h>

#include "longbow/nn/recompute.h"

namespace longbow {
namespace {

enum Place { kMixer, kFeedForward };

class ResidualBlock : public BlockImpl {
 public:
  ResidualBlock(const Site& site, Mixer mixer, const BlockConfig& config)
      : config_(config), path_(site.path), shared_(site.shared) {
    const bool feeds = config.feed_forward.kind != FeedForwardKind::none;
    TORCH_CHECK(
        config.residual != Residual::reversible || (config.mixes && feeds), path_,
        ": a reversible block needs a mixer and a feed-forward layer; take another residual");
    if (config.mixes) {
      if (config.convolution.width > 0)
        convolution_ = register_module(
            "convolution",
            std::make_shared<ShortConvolution>(site.at("convolution"), config.convolution.width));
      mixer_ = register_module("mixer", std::move(mixer));
      add_residual(kMixer, "mixer", site.shape.width);
    }
    if (feeds) {
      feed_forward_ = register_module(
          "feed_forward",
          std::make_shared<FeedForward>(site.at("feed_forward"), config.feed_forward));
      add_residual(kFeedForward, "feed_forward", site.shape.width);
    }
  }

  Tensor forward(const Tensor& x, Context& context) override {
    if (config_.recompute != Recompute::block || !is_training()) return run(x, context);
    return recomputed([this](const Tensor& t, Context& c) { return run(t, c); }, x, context,
                      tensors_of(*this));
  }

  void start(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    if (mixer_) mixer_->start(state, lanes, capacity, context);
    if (convolution_) convolution_->start(state, lanes);
  }

  Tensor extend(const Tensor& x, State& state, Context& context) override {
    return joined(x, context, [&](const Tensor& t) {
      return mixer_->extend(convolution_ ? convolution_->extend(t, state, context) : t, state,
                            context);
    });
  }

  Branch branch() override {
    if (config_.residual != Residual::reversible) return {};
    return [this](int place, const Tensor& x, Context& context) {
      return place == kMixer
                 ? added(kMixer, x, context, [&](const Tensor& t) { return mixed(t, context); })
                 : fed(x, context);
    };
  }

 private:
  void add_residual(Place place, const std::string& name, int64_t width) {
    if (config_.residual == Residual::rezero)
      alpha_[place] =
          parameter(name + "_scale", at::full({1}, config_.rezero_start), {.decay = false});
    else
      norm_[place] =
          register_module(name + "_norm", std::make_shared<LayerNorm>(width, config_.norm_epsilon));
  }

  Tensor run(const Tensor& x, Context& context) {
    return joined(x, context, [&](const Tensor& t) { return mixed(t, context); });
  }

  // The two sub-layers after one another, `mix` being what the first one does.
  template <class F>
  Tensor joined(const Tensor& x, Context& context, const F& mix) {
    if (config_.residual == Residual::reversible) {
      const auto streams = x.chunk(2, -1);
      const auto y = streams[0] + added(kMixer, streams[1], context, mix);
      return at::cat({y, streams[1] + fed(y, context)}, -1);
    }
    const auto y = mixer_ ? summed(kMixer, x, added(kMixer, x, context, mix)) : x;
    return feed_forward_ ? summed(kFeedForward, y, fed(y, context)) : y;
  }

  // What a sub-layer adds to the stream.
  template <class F>
  Tensor added(Place place, const Tensor& x, Context& context, const F& body) {
    const bool first =
        config_.residual == Residual::pre_norm || config_.residual == Residual::reversible;
    const auto site = path_ + (place == kMixer ? ".mixer.dropout" : ".feed_forward.dropout");
    return dropout(body(first ? (*norm_[place])(x) : x), config_.dropout, is_training(), context,
                   site);
  }

  Tensor fed(const Tensor& x, Context& context) {
    return added(kFeedForward, x, context,
                 [&](const Tensor& t) { return (*feed_forward_)(t, context); });
  }

  Tensor summed(Place place, const Tensor& x, const Tensor& y) const {
    if (config_.residual == Residual::rezero) return x + alpha_[place] * y;
    return config_.residual == Residual::pre_norm ? x + y : (*norm_[place])(x + y);
  }

  Tensor mixed(const Tensor& input, Context& context) {
    const auto x = convolution_ ? (*convolution_)(input, context) : input;
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

  BlockConfig config_;
  std::string path_;
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<ShortConvolution> convolution_;
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
