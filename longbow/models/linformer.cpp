#include "longbow/models/linformer.h"

#include <ATen/ATen.h>

#include "longbow/nn/recompute.h"

namespace longbow {
namespace {

void require(bool fine, const std::string& what, const std::string& hint) {
  if (!fine) throw UserError(what, hint);
}

void check_config(const LinformerConfig& c) {
  const auto text = [](int64_t n) { return std::to_string(n); };
  require(c.input_size > 0 && c.channels > 0, "linformer: input_size or channels is not given",
          "set both");
  require(c.full_attention || c.dim_k > 0, "linformer: dim_k is not given", "set it");
  require(c.activation == Activation::gelu || c.activation == Activation::relu,
          "linformer: unknown activation", "take gelu or relu");
  require(
      c.dim_d || c.channels % c.nhead == 0,
      "linformer: channels " + text(c.channels) + " is not a multiple of nhead " + text(c.nhead),
      "change one of them, or set dim_d");
  const bool layerwise = c.parameter_sharing == LengthSharing::layerwise;
  if (c.ff_intermediate) {
    require(!layerwise, "linformer: ff_intermediate does not go with parameter_sharing layerwise",
            "share headwise, kv or none");
    require(!c.decoder_mode, "linformer: ff_intermediate does not go with decoder_mode",
            "drop one of them");
    require(c.include_ff, "linformer: ff_intermediate needs feed-forward layers",
            "set include_ff, or drop ff_intermediate");
  }
  require(c.compatible || !layerwise || c.k_reduce_by_layer == 0,
          "linformer: layers that share a projection cannot have fewer and fewer slots",
          "drop k_reduce_by_layer, or share headwise, kv or none");
  require(c.decoder_mode || (c.embeddings_size == 0 && c.embeddings_channels == 0),
          "linformer: embeddings are read in decoder_mode only", "set decoder_mode");
  require(!c.compatible || ((c.embeddings_size == 0 || c.embeddings_size == c.input_size) &&
                            (c.embeddings_channels == 0 || c.embeddings_channels == c.channels)),
          "linformer: linformer-pytorch's embeddings have the shape of the input",
          "make the sizes equal, or drop compatible");
}

bool computes_again(CheckpointLevel level) {
  return level != CheckpointLevel::C0 && at::GradMode::is_enabled();
}

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
  require(k <= tokens,
          "linformer: dim_k is " + std::to_string(k) + " for " + std::to_string(tokens) + " tokens",
          "make it smaller");
  const int64_t window = tokens / k;
  const int64_t rank = c.compatible ? tokens / window : (tokens + window - 1) / window;
  return {rank, rank * window};
}

Node mixer_options(const LinformerConfig& c, const Slots& slots, bool triangle, double dropout) {
  const auto name = [](auto value) {
    return Node::string(std::string(names_of(value)[static_cast<size_t>(value)]));
  };
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

}  // namespace

// LN(x + f(x)).
class LinformerLayer : public Part {
 public:
  Tensor operator()(const Tensor& x, Context& context, const LinformerInputs& inputs) {
    Context own = prepared(x, context, inputs);
    const auto body = [this](const Tensor& t, Context& c) {
      if (c.recomputing) c.maps = nullptr;  // whoever looked may be gone
      return (*norm_)((resample_ ? (*resample_)(t) : t) + f(t, c));
    };
    if (!computes_again(level_)) return body(x, own);
    auto all = parameters();
    for (const auto& parameter : shared_->parameters()) all.push_back(parameter);
    return recomputed(body, x, own, all);
  }

 protected:
  LinformerLayer(const Site& site, int64_t out, CheckpointLevel level)
      : path_(site.path), level_(level), shared_(site.shared) {
    const int64_t in = site.shape.width;
    if (in != out)
      resample_ =
          register_module("resample", std::make_shared<Linear>(site.at("resample"), in, out));
    norm_ = register_module("norm", std::make_shared<LayerNorm>(out));
  }
  virtual Context prepared(const Tensor& x, const Context& context,
                           const LinformerInputs& inputs) const = 0;
  virtual Tensor f(const Tensor& x, Context& context) = 0;

  std::string path_;

 private:
  CheckpointLevel level_;
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Linear> resample_;
  std::shared_ptr<LayerNorm> norm_;
};

namespace {

// The projections of queries, keys and values have no bias, those of the output do. W2 (W1 h + b1)
// + b2 = W2 W1 h + (W2 b1 + b2), so the mixer has none and what they sum to is added here.
class AttentionLayer : public LinformerLayer {
 public:
  AttentionLayer(const Site& site, const LinformerConfig& config, bool cross)
      : LinformerLayer(site, site.shape.width, config.checkpoint_level),
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

  Tensor f(const Tensor& x, Context& context) override {
    const auto y = (*mixer_)(x, context);
    const auto bias =
        output_in_bias_.defined()
            ? at::linear(output_in_bias_, mixer_->named_parameters()["output.weight"], output_bias_)
            : output_bias_;
    return dropout(y + bias, config_.dropout, is_training(), context, path_ + ".dropout");
  }

 private:
  // There a decoder hides the future of the embeddings, not its own.
  bool causal() const {
    if (!config_.compatible) return config_.causal && !cross_;
    return config_.causal && (cross_ || !config_.decoder_mode);
  }

  LinformerConfig config_;
  bool cross_;
  int64_t covered_ = 0;
  Mixer mixer_;
  Tensor output_in_bias_, output_bias_;
};

class FeedLayer : public LinformerLayer {
 public:
  FeedLayer(const Site& site, const LinformerConfig& config, int64_t out)
      : LinformerLayer(site, out, config.checkpoint_level),
        activation_(config.activation),
        rate_(config.dropout_ff) {
    const auto add = [&](const std::string& name, int64_t from, int64_t to) {
      return register_module(name, std::make_shared<Linear>(site.at(name), from, to));
    };
    w_1_ = add("w_1", site.shape.width, config.dim_ff);
    w_2_ = add("w_2", config.dim_ff, out);
  }

 protected:
  Context prepared(const Tensor&, const Context& context, const LinformerInputs&) const override {
    return context;
  }
  Tensor f(const Tensor& x, Context& context) override {
    const auto dropped = [&](const Tensor& t, const std::string& name) {
      return dropout(t, rate_, is_training(), context, path_ + name);
    };
    return dropped((*w_2_)(dropped(activated((*w_1_)(x), activation_), ".dropout_in")), ".dropout");
  }

 private:
  Activation activation_;
  double rate_;
  std::shared_ptr<Linear> w_1_, w_2_;
};

Tensor as_mask(const Tensor& mask) {
  return mask.defined() ? mask.to(at::kBool) : mask;
}

}  // namespace

Linformer::Linformer(const LinformerConfig& config, uint64_t seed, const std::string& path)
    : config_(config) {
  check_config(config);
  shared_ = register_module("shared", std::make_shared<Shared>());
  const auto list = register_module("seq", std::make_shared<torch::nn::Module>("seq"));
  Site site = {.shape = {.width = config.channels,
                         .heads = config.nhead,
                         .head_width = config.dim_d.value_or(config.channels / config.nhead),
                         .max_length = config.input_size},
               .init = "xavier",
               .bias = false,
               .layers = config.depth,
               .seed = seed,
               .shared = shared_};
  const auto next = [&] {
    auto here = site;
    here.path = path + "seq." + std::to_string(layers_.size());
    return here;
  };
  const auto add = [&](const std::shared_ptr<LinformerLayer>& layer) {
    layers_.push_back(list->register_module(std::to_string(layers_.size()), layer));
  };
  const auto attend = [&](bool cross) {
    auto here = next();
    if (cross) here.shape.memory_width = config.embeddings_channels;
    attentions_.push_back(
        {static_cast<int64_t>(layers_.size()), site.layer, cross, here.path + ".mixer"});
    add(std::make_shared<AttentionLayer>(here, config, cross));
  };
  for (; site.layer < config.depth; ++site.layer) {
    const bool last = site.layer == config.depth - 1;
    const int64_t out = last ? config.channels : config.ff_intermediate.value_or(config.channels);
    attend(false);
    if (config.include_ff) add(std::make_shared<FeedLayer>(next(), config, out));
    site.shape.width = out;
    if (!config.decoder_mode) continue;
    attend(true);
    if (config.include_ff) add(std::make_shared<FeedLayer>(next(), config, out));
  }
}

void Linformer::check(const Tensor& x, const LinformerInputs& inputs) const {
  const auto& c = config_;
  TORCH_CHECK(x.dim() == 3 && x.size(1) == c.input_size && x.size(2) == c.channels,
              "linformer: x is ", x.sizes(), ", but needs [batch, ", c.input_size, ", ", c.channels,
              "]; Padder fills shorter inputs up");
  const auto& e = inputs.embeddings;
  TORCH_CHECK(c.decoder_mode == e.defined(), "linformer: embeddings are ",
              e.defined() ? "given without" : "missing in", " decoder_mode");
  const int64_t tokens = c.embeddings_size > 0 ? c.embeddings_size : c.input_size,
                width = c.embeddings_channels > 0 ? c.embeddings_channels : c.channels;
  TORCH_CHECK(!e.defined() || (e.dim() == 3 && e.size(0) == x.size(0) && e.size(1) == tokens &&
                               e.size(2) == width),
              "linformer: embeddings are ", e.sizes(), ", but need [", x.size(0), ", ", tokens,
              ", ", width, "]");
  const auto fits = [&](const char* name, const Tensor& mask, int64_t length) {
    TORCH_CHECK(
        !mask.defined() || (mask.dim() == 2 && mask.size(0) == x.size(0) && mask.size(1) == length),
        "linformer: ", name, " is ", mask.sizes(), ", but needs [", x.size(0), ", ", length, "]");
  };
  fits("input_mask", inputs.input_mask, c.input_size);
  fits("embeddings_mask", inputs.embeddings_mask, tokens);
  TORCH_CHECK(!c.compatible || !inputs.embeddings_mask.defined(),
              "linformer: linformer-pytorch hides queries with embeddings_mask, which compatible "
              "does not reproduce; drop one of them");
}

Tensor Linformer::operator()(const Tensor& x, const LinformerInputs& inputs) {
  check(x, inputs);
  auto given = inputs;
  given.input_mask = as_mask(inputs.input_mask);
  given.embeddings_mask = as_mask(inputs.embeddings_mask);
  Context context = {.random = inputs.random, .maps = inputs.maps};
  auto y = x;
  for (const auto& layer : layers_) y = (*layer)(y, context, given);
  return y;
}

}  // namespace longbow
