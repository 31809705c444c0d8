#include "longbow/models/perceiver/perceiver_classifier.h"

#include <ATen/ATen.h>

namespace longbow {

int64_t PerceiverClassifierConfig::query_width() const {
  if (output.queries == OutputQueries::tokens) return channels();
  return output.width > 0 ? output.width : encoder.width;
}

void check_perceiver_classifier(const PerceiverClassifierConfig& config, const Node& tree) {
  check_perceiver(config, tree);
  if (config.output.queries == OutputQueries::tokens && config.output.width > 0)
    throw UserError(tree.find("output")->place_of("width"),
                    "model.output.width is that of learned queries, but the tokens ask",
                    "leave it out, or set model.output.queries: positions");
  check_cross(config.output.cross, "output", config.query_width(), tree);
}

PerceiverClassifier::PerceiverClassifier(const PerceiverClassifierConfig& config,
                                         int64_t vocabulary, int64_t classes, bool per_token,
                                         uint64_t seed)
    : input_(register_module("input", std::make_shared<PerceiverInput>(config, vocabulary, seed))),
      perceiver_(register_module("perceiver",
                                 std::make_shared<Perceiver>(config, config.channels(), seed))) {
  const auto& encoder = config.encoder;
  auto site = site_of(encoder, seed).at("head");
  int64_t width = encoder.width;
  if (per_token) {
    width = config.query_width();
    if (config.output.queries == OutputQueries::positions)
      queries_ =
          parameter("queries", initial_normal(site, "queries", {encoder.max_length, width}, 0.02));
    decoder_ = register_module(
        "decoder", std::make_shared<CrossLayer>(
                       cross_site(site.at("decoder"), config.output.cross, width), encoder.width,
                       cross_block(config.output.cross, encoder.block), config.output.residual));
  } else {
    norm_ = register_module("norm", std::make_shared<LayerNorm>(width, encoder.block.norm_epsilon));
  }
  site.init = "xavier";
  output_ = register_module("output", std::make_shared<Linear>(site.at("output"), width, classes));
}

Tensor PerceiverClassifier::asked(const Tensor& tokens, const Tensor& x, const Tensor& z,
                                  Context& context) const {
  const auto queries =
      queries_.defined() ? at::embedding(queries_, positions_of(tokens, context)) : x;
  Context inner = context;
  inner.maps = nullptr;  // what is looked at is how the latents read
  const auto y = (*decoder_)(queries, decoder_->source(z), {}, inner);
  context.loss = inner.loss;
  return y;
}

Tensor PerceiverClassifier::operator()(const Tensor& tokens, Context& context) {
  const auto x = (*input_)(tokens, context);
  const auto z = (*perceiver_)(x, context);
  return (*output_)(decoder_ ? asked(tokens, x, z, context) : (*norm_)(z.mean(1)));
}

}  // namespace longbow
