#include "longbow/models/linformer_pytorch/linformer_layer.h"

#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/contract/recompute.h"
#include "longbow/nn/layers/layer_norm.h"
#include "longbow/ops/perceptron.h"

namespace longbow {

LinformerLayer::LinformerLayer(const Site& site, int64_t out, double rate, CheckpointLevel level)
    : path_(site.path), rate_(rate), level_(level), shared_(site.shared) {
  const int64_t in = site.shape.width;
  if (in != out)
    resample_ = register_module("resample", std::make_shared<Linear>(site.at("resample"), in, out));
  norm_ = register_module("norm", std::make_shared<LayerNorm>(out));
}

Tensor LinformerLayer::operator()(const Tensor& x, const Context& context,
                                  const LinformerInputs& inputs) {
  Context own = prepared(x, context, inputs);
  const auto body = [this](const Tensor& t, Context& c) { return joined(t, f(t, c), c); };
  if (level_ == CheckpointLevel::C0 || !at::GradMode::is_enabled()) return body(x, own);
  auto all = parameters();
  for (const auto& parameter : shared_->parameters()) all.push_back(parameter);
  return recomputed(body, x, own, all);
}

Tensor LinformerLayer::extend(const Tensor& x, State& state, const Context& context) {
  Context own = context;
  return joined(x, grown(x, state, own), own);
}

Tensor LinformerLayer::joined(const Tensor& x, const Tensor& y, const Context& context) const {
  return (*norm_)(add_dropped(resample_ ? (*resample_)(x) : x, y,
                              drop_of(rate_, is_training(), context, path_ + ".dropout")));
}

Context LinformerLayer::prepared(const Tensor&, const Context& context,
                                 const LinformerInputs&) const {
  return context;
}

void LinformerLayer::start(State&, int64_t, int64_t, const LinformerInputs&) {}

Tensor LinformerLayer::grown(const Tensor& x, State&, Context& context) {
  return f(x, context);
}

namespace {

Tensor zeroed(const Tensor& x, const Tensor& mask) {
  return mask.defined() ? x.masked_fill(mask.logical_not().unsqueeze(-1), 0) : x;
}

// Slots of one attention, and the tokens they are made of. Kernel and stride of a convolution are
// floor(tokens / dim_k); where that leaves tokens over, linformer-pytorch drops them and we give
// them a slot of their own.
struct Slots {
  int64_t rank, covered;
};
Slots slots_of(const LinformerConfig& c, int64_t tokens, int64_t layer) {
  if (c.full_attention) return {tokens, tokens};
  const bool layerwise = c.parameter_sharing == LengthSharing::layerwise;
  const int64_t k = std::max<int64_t>(1, c.dim_k - (layerwise ? 0 : layer * c.k_reduce_by_layer));
  if (c.method != ProjectionMethod::convolution) return {k, tokens};
  if (k > tokens)
    throw UserError(
        "linformer: dim_k is " + std::to_string(k) + " for " + std::to_string(tokens) + " tokens",
        "make it smaller");
  const int64_t window = tokens / k;
  const int64_t rank = c.compatible ? tokens / window : (tokens + window - 1) / window;
  return {rank, rank * window};
}

Node mixer_options(const LinformerConfig& c, const Slots& slots, bool triangle, double dropout) {
  const auto name = [](auto value) { return Node::string(name_of(value)); };
  const bool narrow = c.w_o_intermediate_dim.has_value();
  if (c.full_attention && !narrow)
    return Node::map({{"name", Node::string("softmax")}, {"dropout", Node::number(dropout)}});
  Node options = Node::map({{"name", Node::string("linformer")},
                            {"rank", Node::integer(slots.rank)},
                            {"max_length", Node::integer(slots.covered)},
                            {"slot_triangle", Node::boolean(triangle)},
                            {"output_rank", Node::integer(c.w_o_intermediate_dim.value_or(0))},
                            {"dropout", Node::number(dropout)}});
  if (c.full_attention) {  // windows of one token are the tokens themselves
    options["method"] = name(LengthMethod::mean_pool);
    return options;
  }
  const bool fixed = c.method == ProjectionMethod::no_params;
  options["method"] = fixed ? name(LengthMethod::fixed_random) : name(c.method);
  options["sharing"] = name(c.parameter_sharing);
  options["bias"] = Node::boolean(!fixed);
  if (c.method == ProjectionMethod::convolution) options["start"] = name(LengthStart::uniform);
  if (fixed && c.compatible) options["deviation"] = name(LengthDeviation::inverse);
  options["recompute_heads"] = Node::boolean(c.checkpoint_level == CheckpointLevel::C2);
  return options;
}

// The projections of queries, keys and values have no bias, those of the output do. W2 (W1 h + b1)
// + b2 = W2 W1 h + (W2 b1 + b2), so the mixer has none and what they sum to is added here.
class AttentionLayer : public LinformerLayer {
 public:
  AttentionLayer(const Site& site, const LinformerConfig& config, bool cross)
      : LinformerLayer(site, site.shape.width, config.dropout, config.checkpoint_level),
        config_(config),
        cross_(cross) {
    auto here = site.at("mixer");
    const int64_t tokens =
        cross && config.embeddings_size > 0 ? config.embeddings_size : config.input_size;
    const auto slots = slots_of(config, tokens, site.layer);
    covered_ = std::min(slots.covered, tokens);
    here.shape.memory_length = covered_;
    // What all layers share, attentions to the embeddings share too, where the sizes allow it.
    here.cross =
        cross && (tokens != config.input_size || here.shape.source_width() != here.shape.width);
    const bool triangle = config.compatible && causal() && !config.full_attention;
    mixer_ = register_module(
        "mixer", make_mixer(mixer_options(config, slots, triangle, config.dropout), here));
    const auto zeros = [&](const std::string& name, int64_t width) {
      return parameter(name, at::zeros({width}), {.decay = false});
    };
    if (const auto narrow = config.w_o_intermediate_dim)
      output_in_bias_ = zeros("output_in_bias", *narrow);
    output_bias_ = zeros("output_bias", site.shape.width);
    output_weight_ = mixer_->named_parameters()["output.weight"];
  }

 protected:
  Context prepared(const Tensor& x, const Context& context,
                   const LinformerInputs& inputs) const override {
    Context own = context;
    if (cross_) own.memory = inputs.embeddings;
    if (!config_.compatible) {
      const auto& keep = cross_ ? inputs.embeddings_mask : inputs.input_mask;
      own.mask = {.causal = causal(), .ragged = keep.defined(), .keep = keep};
      if (cross_) own.mask.query_keep = inputs.input_mask;
      return own;
    }
    // There the keys and values of hidden tokens are zero and are read as such, and queries are
    // never hidden: a memory in which these tokens are zero, because the projections have no bias.
    own.mask.causal = config_.full_attention && causal();
    const auto source = cross_ ? inputs.embeddings : x;
    if (inputs.input_mask.defined() || covered_ < source.size(1))
      own.memory = zeroed(source, inputs.input_mask).narrow(1, 0, covered_);
    return own;
  }

  Tensor f(const Tensor& x, Context& context) override { return finished((*mixer_)(x, context)); }

  void start(State& state, int64_t lanes, int64_t capacity,
             const LinformerInputs& inputs) override {
    Context context;
    if (cross_) {
      const auto& keep = inputs.embeddings_mask;
      context.memory = inputs.embeddings;
      context.mask = {.ragged = keep.defined(), .keep = keep};
    }
    mixer_->start(state, lanes, capacity, context);
  }
  Tensor grown(const Tensor& x, State& state, Context& context) override {
    return finished(mixer_->extend(x, state, context));
  }

 private:
  Tensor finished(const Tensor& y) const {
    const auto bias = output_in_bias_.defined()
                          ? at::linear(output_in_bias_, output_weight_, output_bias_)
                          : output_bias_;
    return y + bias;
  }

  // There a decoder hides the future of the embeddings, not its own.
  bool causal() const {
    if (!config_.compatible) return config_.causal && !cross_;
    return config_.causal && (cross_ || !config_.decoder_mode);
  }

  LinformerConfig config_;
  bool cross_;
  int64_t covered_ = 0;
  Mixer mixer_;
  Tensor output_in_bias_, output_bias_, output_weight_;
};

class FeedLayer : public LinformerLayer {
 public:
  FeedLayer(const Site& site, const LinformerConfig& config, int64_t out)
      : LinformerLayer(site, out, config.dropout_ff, config.checkpoint_level),
        activation_(config.activation) {
    const auto add = [&](const std::string& name, int64_t from, int64_t to) {
      return register_module(name, std::make_shared<Linear>(site.at(name), from, to));
    };
    w_1_ = add("w_1", site.shape.width, config.dim_ff);
    w_2_ = add("w_2", config.dim_ff, out);
  }

 protected:
  Tensor f(const Tensor& x, Context& context) override {
    const auto drop = drop_of(rate_, is_training(), context, path_ + ".dropout_in");
    return perceptron(
        x, {w_1_->weight, w_1_->bias, w_2_->weight, w_2_->bias, curve_of(activation_), drop});
  }

 private:
  Activation activation_;
  std::shared_ptr<Linear> w_1_, w_2_;
};

}  // namespace

std::shared_ptr<LinformerLayer> attention_layer(const Site& site, const LinformerConfig& config,
                                                bool cross) {
  return std::make_shared<AttentionLayer>(site, config, cross);
}

std::shared_ptr<LinformerLayer> feed_layer(const Site& site, const LinformerConfig& config,
                                           int64_t out) {
  return std::make_shared<FeedLayer>(site, config, out);
}

}  // namespace longbow
