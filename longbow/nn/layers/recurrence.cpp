#include "longbow/nn/layers/recurrence.h"

#include <ATen/ATen.h>

#include "longbow/nn/features/feature_attention.h"

namespace longbow {
namespace {

Tensor reversed(const Tensor& tokens) {
  return tokens.defined() ? tokens.flip(1) : tokens;
}

class RecurrentMixer : public MixerImpl {
 public:
  RecurrentMixer(const std::shared_ptr<RecurrentLayer>& forward,
                 const std::shared_ptr<RecurrentLayer>& backward)
      : forward_(register_module("forward", forward)),
        backward_(backward ? register_module("backward", backward) : forward) {}

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto& keep = context.mask.keep;
    const auto positions = positions_of(x, context);
    const auto y = run(*forward_, x, keep, positions);
    if (context.mask.causal) return y;
    return y + reversed(run(*backward_, reversed(x), reversed(keep), reversed(positions)));
  }

  void open(State& state, int64_t lanes, int64_t, Context&) override {
    forward_->open(state, lanes);
  }
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    return forward_->extend(x, state, context);
  }

 private:
  static Tensor run(const RecurrentLayer& layer, const Tensor& x, const Tensor& keep,
                    const Tensor& positions) {
    State state;
    layer.open(state, x.size(0));
    return layer.extend(x, state, {.mask = {.causal = true, .keep = keep}, .positions = positions});
  }

  std::shared_ptr<RecurrentLayer> forward_, backward_;
};

}  // namespace

Promises recurrent_promises(Backward backward) {
  const bool both = backward == Backward::own;
  return {.future = both ? Future::refused : Future::exact,
          .decode = !both,
          .positional = true,
          .launches = Launches::logarithmic,
          .causal_launches = Launches::logarithmic};
}

Mixer recurrent_mixer(const std::shared_ptr<RecurrentLayer>& forward,
                      const std::shared_ptr<RecurrentLayer>& backward) {
  return std::make_shared<RecurrentMixer>(forward, backward);
}

RecurrentHeads::RecurrentHeads(const Site& site, const HeadsConfig& config)
    : heads_(site.shape.heads), key_width_(config.key_width), value_width_(config.value_width) {
  const int64_t width = site.shape.width, keys = heads_ * key_width_,
                values = heads_ * value_width_;
  query_ = linear(site, "query", width, keys);
  key_ = linear(site, "key", width, keys);
  value_ = linear(site, "value", width, values);
  if (config.output_gate) gate_ = linear(site, "gate", width, values);
  output_ = linear(site, "output", values, width);
  norm_ = register_module("norm", std::make_shared<RmsNorm>(value_width_, config.norm_epsilon));
  if (config.convolution == 0) return;
  auto over = site.at("convolution");
  over.shape.width = 2 * keys + values;
  convolution_ =
      register_module("convolution", std::make_shared<ShortConvolution>(over, config.convolution));
}

void RecurrentHeads::open(State& state, int64_t lanes) const {
  const auto options = query_->weight.options().requires_grad(false);
  state.add("sums", {lanes, heads_, key_width_, value_width_}, options.dtype(wide(query_->weight)));
  if (convolution_) convolution_->start(state, lanes);
}

Tensor RecurrentHeads::extend(const Tensor& x, State& state, const Context& context) const {
  auto rows = project_together(x, {query_.get(), key_.get(), value_.get()});
  if (convolution_) {
    const int64_t keys = heads_ * key_width_, values = heads_ * value_width_;
    rows = at::silu(convolution_->extend(at::cat(rows, -1), state, context))
               .split_with_sizes({keys, keys, values}, -1);
  }
  const auto by_head = [&](const Tensor& t) { return split_heads(t.to(wide(t)), heads_); };
  const Heads heads = {by_head(rows[0]), without_padding(by_head(rows[1]), context.mask.keep),
                       by_head(rows[2]), x, x};
  const auto o = read(heads, state.lane.at("sums"), context);
  const auto y = merge_heads((*norm_)(o)).to(x.scalar_type());
  return (*output_)(gate_ ? y * at::silu((*gate_)(x)) : y);
}

}  // namespace longbow
