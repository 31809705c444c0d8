#include "longbow/nn/layers/block.h"

#include <ATen/ATen.h>

#include <string_view>

#include "longbow/core/option_error.h"
#include "longbow/nn/contract/recompute.h"
#include "longbow/nn/layers/layer_norm.h"

namespace longbow {
namespace {

// What mixers beside each other carry together: its names begin so.
constexpr std::string_view kCommon = "all.";

// What one of several mixers sees of the context: its own part of what is carried and what all
// carry, and the tokens or the memory.
class Share {
 public:
  Share(const Mixing& mixing, Context& whole) : prefix_(mixing.name + "."), whole_(whole) {
    inner = whole;
    inner.carry.clear();
    for (const auto& [key, value] : whole.carry) {
      if (key.starts_with(prefix_)) inner.carry[key.substr(prefix_.size())] = value;
      if (key.starts_with(kCommon)) inner.carry[key] = value;
    }
    if (!mixing.cross) inner.memory = Tensor();
  }
  // Keys are rows of the memory, queries are tokens.
  void cross_mask() {
    const auto& tokens = whole_.mask;
    inner.mask = {.ragged = whole_.memory_ragged,
                  .keep = whole_.memory_keep,
                  .query_keep = tokens.query_keep.defined() ? tokens.query_keep : tokens.keep};
  }
  void give_back() {
    for (const auto& [key, value] : inner.carry)
      whole_.carry[key.starts_with(kCommon) ? key : prefix_ + key] = value;
    whole_.loss = inner.loss;
  }
  Context inner;

 private:
  std::string prefix_;
  Context& whole_;
};

class ResidualBlock : public BlockImpl {
 public:
  ResidualBlock(const Site& site, const std::vector<Mixing>& mixers, const BlockConfig& config)
      : config_(config), path_(site.path), shared_(site.shared), several_(mixers.size() > 1) {
    const bool feeds = config.feed_forward.kind != FeedForwardKind::none;
    for (const auto& mixing : mixers) {
      if (!mixing.mixer) continue;
      mixers_.push_back(mixing);
      register_module(mixing.name, mixing.mixer);
      add_residual(mixing.name, site.shape.width);
    }
    check_block(config, site.shape.width, !mixers_.empty());
    own_convolution_ = config.convolution.place == ConvolutionPlace::residual;
    if ((!mixers_.empty() || own_convolution_) && config.convolution.width > 0)
      convolution_ = register_module(
          "convolution",
          std::make_shared<ShortConvolution>(site.at("convolution"), config.convolution.width,
                                             config.convolution.columns));
    own_convolution_ = own_convolution_ && convolution_;
    if (own_convolution_) convolving_ = joint("convolution", site.shape.width);
    if (!feeds) return;
    feed_forward_ = register_module(
        "feed_forward",
        std::make_shared<FeedForward>(site.at("feed_forward"), config.feed_forward));
    add_residual("feed_forward", site.shape.width);
  }

  Tensor forward(const Tensor& x, Context& context) override {
    if (config_.recompute != Recompute::block || !is_training()) return run(x, context);
    return recomputed([this](const Tensor& t, Context& c) { return run(t, c); }, x, context,
                      tensors_of(*this));
  }

  void start(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    if (several_) {
      state = {};
      for (const auto& mixing : mixers_) {
        Share part(mixing, context);
        if (mixing.cross) part.cross_mask();
        mixing.mixer->start(state.child[mixing.name], lanes, capacity, part.inner);
        part.give_back();
      }
    } else if (!mixers_.empty()) {
      mixers_[0].mixer->start(state, lanes, capacity, context);
    }
    if (convolution_) convolution_->start(state, lanes);
  }

  Tensor extend(const Tensor& x, State& state, Context& context) override {
    const auto convolve = [&](const Tensor& t) { return convolution_->extend(t, state, context); };
    return joined(x, context, convolve, [&](size_t place, const Tensor& input) {
      const auto& mixing = mixers_[place];
      const auto t = reads_convolution(place) ? convolve(input) : input;
      if (!several_) return mixing.mixer->extend(t, state, context);
      Share part(mixing, context);
      const auto y = mixing.mixer->extend(t, state.child.at(mixing.name), part.inner);
      part.give_back();
      return y;
    });
  }

  Branch branch() override {
    if (config_.residual != Residual::reversible) return {};
    return [this](int place, const Tensor& x, Context& context) {
      const auto mix = [&](size_t which, const Tensor& t) { return mixed(which, t, context); };
      const auto y = place > 0 ? fed(x, context) : mixed_branch(x, context, mix);
      return y.to(x.scalar_type());
    };
  }

 private:
  // Around one sub-layer: the mixers, then the feed-forward layer.
  struct Joint {
    std::string name;
    std::shared_ptr<LayerNorm> norm;
    Tensor alpha;
  };

  Joint joint(const std::string& name, int64_t width, bool normalises_itself = false) {
    Joint made = {.name = name, .norm = {}, .alpha = {}};
    if (config_.residual == Residual::rezero)
      made.alpha =
          parameter(name + "_scale", at::full({1}, config_.rezero_start), {.decay = false});
    else if (!normalises_itself || config_.residual == Residual::post_norm)
      made.norm =
          register_module(name + "_norm", std::make_shared<LayerNorm>(width, config_.norm_epsilon));
    return made;
  }
  void add_residual(const std::string& name, int64_t width) {
    joints_.push_back(
        joint(name, width, joints_.empty() && !mixers_.empty() && !config_.norms_mixer));
  }

  bool reads_convolution(size_t place) const {
    return place == 0 && convolution_ && !own_convolution_;
  }

  Tensor run(const Tensor& x, Context& context) {
    return joined(
        x, context, [&](const Tensor& t) { return (*convolution_)(t, context); },
        [&](size_t place, const Tensor& t) { return mixed(place, t, context); });
  }

  // The sub-layers after one another; mix(i, x) is what mixer i does.
  template <class C, class F>
  Tensor joined(const Tensor& x, Context& context, const C& convolve, const F& mix) {
    if (config_.residual == Residual::reversible) {
      const auto streams = x.chunk(2, -1);
      const auto y = streams[0] + mixed_branch(streams[1], context, mix);
      return at::cat({y, streams[1] + fed(y, context)}, -1);
    }
    auto y = x;
    if (own_convolution_) y = after(convolving_, y, context, convolve);
    for (size_t i = 0; i < mixers_.size(); ++i)
      y = after(joints_[i], y, context, [&](const Tensor& t) { return mix(i, t); });
    if (!feed_forward_) return y;
    const auto& last = joints_.back();
    if (config_.residual == Residual::pre_norm)
      return feed_forward_->added(y, *last.norm, drop_at(last, context), context);
    return summed(last, y, fed(y, context));
  }

  // The stream after a sub-layer.
  template <class F>
  Tensor after(const Joint& joint, const Tensor& x, Context& context, const F& body) {
    if (config_.residual != Residual::pre_norm)
      return summed(joint, x, added(joint, x, context, body));
    const auto y = body(joint.norm ? (*joint.norm)(x) : x);
    return add_dropped(x, y, drop_at(joint, context));
  }

  // What all mixers together add to the first stream; each reads the second one and what those
  // before it added.
  template <class F>
  Tensor mixed_branch(const Tensor& x, Context& context, const F& mix) {
    auto sum = added_by_mixer(0, x, context, mix);
    for (size_t i = 1; i < mixers_.size(); ++i)
      sum = sum + added_by_mixer(i, x + sum, context, mix);
    return sum;
  }

  template <class F>
  Tensor added_by_mixer(size_t place, const Tensor& x, Context& context, const F& mix) {
    return added(joints_[place], x, context, [&](const Tensor& t) { return mix(place, t); });
  }

  // What a sub-layer adds to the stream.
  template <class F>
  Tensor added(const Joint& joint, const Tensor& x, Context& context, const F& body) {
    if (config_.residual != Residual::reversible)
      return dropout(body(x), config_.dropout, is_training(), context, site_of(joint));
    // Streams have more digits than the model computes with.
    const auto t = x.to(joints_.back().norm->weight.scalar_type());
    return dropout(body(joint.norm ? (*joint.norm)(t) : t), config_.dropout, is_training(), context,
                   site_of(joint));
  }
  // Not under the name of the sub-layer, which draws there itself: the same site would mean the
  // same numbers.
  std::string site_of(const Joint& joint) const { return path_ + ".dropout." + joint.name; }
  Drop drop_at(const Joint& joint, const Context& context) const {
    return drop_of(config_.dropout, is_training(), context, site_of(joint));
  }

  Tensor fed(const Tensor& x, Context& context) {
    return added(joints_.back(), x, context,
                 [&](const Tensor& t) { return (*feed_forward_)(t, context); });
  }

  Tensor summed(const Joint& joint, const Tensor& x, const Tensor& y) const {
    if (config_.residual == Residual::rezero) return x + joint.alpha * y;
    return (*joint.norm)(x + y);
  }

  Tensor mixed(size_t place, const Tensor& input, Context& context) {
    const auto& mixing = mixers_[place];
    const auto x = reads_convolution(place) ? (*convolution_)(input, context) : input;
    if (!several_) return mixed_by(*mixing.mixer, x, context);
    Share part(mixing, context);
    if (mixing.cross) part.cross_mask();
    const auto y = mixed_by(*mixing.mixer, x, part.inner);
    part.give_back();
    return y;
  }

  Tensor mixed_by(MixerImpl& mixer, const Tensor& x, Context& context) {
    if (config_.recompute != Recompute::attention || !is_training()) return mixer(x, context);
    return recomputed([&mixer](const Tensor& t, Context& c) { return mixer(t, c); }, x, context,
                      tensors_of(mixer));
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
  bool several_;
  std::vector<Mixing> mixers_;
  std::shared_ptr<ShortConvolution> convolution_;  // before the first of them
  bool own_convolution_;                           // as a sub-layer
  Joint convolving_;                               // if so
  std::shared_ptr<FeedForward> feed_forward_;
  std::vector<Joint> joints_;  // in their order
};

}  // namespace

void check_block(const BlockConfig& config, int64_t width, bool mixes) {
  const bool feeds = config.feed_forward.kind != FeedForwardKind::none;
  require_option(config.residual != Residual::reversible || (mixes && feeds), "residual",
                 "is reversible, which needs a mixer and a feed-forward layer",
                 "take another residual");
  require_option(config.residual != Residual::reversible || config.convolution.width == 0 ||
                     config.convolution.place == ConvolutionPlace::input,
                 "convolution", "has a residual of its own, which a reversible block does not have",
                 "set its place to input");
  check_feed_forward(config.feed_forward, width);
  check_convolution(config.convolution);
}

Block residual(const Site& site, Mixer mixer, const BlockConfig& config) {
  return residual(site, std::vector<Mixing>{{"mixer", config.mixes ? std::move(mixer) : nullptr}},
                  config);
}

Block residual(const Site& site, const std::vector<Mixing>& mixers, const BlockConfig& config) {
  return std::make_shared<ResidualBlock>(site, mixers, config);
}

}  // namespace longbow
