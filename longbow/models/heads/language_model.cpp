#include "longbow/models/heads/language_model.h"

#include <ATen/ATen.h>

#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/layer_norm.h"

namespace longbow {

void check_language_head(const LanguageHeadConfig& config, int64_t words, int64_t width,
                         const Node& tree) {
  if (!config.tied || config.transform || words == width) return;
  const auto* transform = tree.find("transform");
  const auto* embedding = tree.find("embedding_width");
  throw UserError(transform   ? transform->place
                  : embedding ? embedding->place
                              : tree.place,
                  "words of width " + std::to_string(words) + " are tied to a model of width " +
                      std::to_string(width) + " without a transform",
                  "set model.transform: true, or model.tied: false");
}

void check_language_model(const LanguageModelConfig& config, const Node& tree) {
  const auto& encoder = config.encoder;
  check_encoder(encoder, tree);
  if (encoder.input == Input::pixels && config.head.tied)
    throw UserError(tree.place_of("tied"), "pixels have no word embeddings to be tied to",
                    "set model.tied: false");
  check_language_head(config.head, encoder.words(), encoder.width, tree);
}

LanguageHead::LanguageHead(const LanguageHeadConfig& config, const Site& site, const Tensor& words,
                           int64_t vocabulary, double norm_epsilon)
    : config_(config), vocabulary_(vocabulary), words_(words) {
  TORCH_CHECK(!config.tied || words.defined(), "language head: tied, but there are no words");
  const int64_t width = site.shape.width, inner = config.tied ? words.size(1) : width;
  TORCH_CHECK(config.transform || inner == width, "language head: words of width ", inner,
              " are tied to a model of width ", width, "; set transform: true");
  if (config.transform) {
    transform_ =
        register_module("transform", std::make_shared<Linear>(site.at("transform"), width, inner));
    norm_ = register_module("norm", std::make_shared<LayerNorm>(inner, norm_epsilon));
  }
  if (!config.tied) words_ = parameter("words", initial_matrix(site, "words", vocabulary, inner));
  bias_ = parameter("bias", at::zeros({vocabulary}), {.decay = false});
}

Tensor LanguageHead::operator()(const Tensor& x) const {
  const auto y = transform_ ? (*norm_)(activated((*transform_)(x), config_.activation)) : x;
  return at::linear(y, words_.narrow(0, 0, vocabulary_), bias_);
}

LanguageModel::LanguageModel(const LanguageModelConfig& config, const Vocabulary& vocabulary,
                             uint64_t seed, const Tensor& words)
    : encoder_(register_module(
          "encoder", std::make_shared<Encoder>(config.encoder, vocabulary.inputs, seed, words))) {
  const Site site = {.shape = {.width = config.encoder.width},
                     .path = "head",
                     .init = name_of(config.encoder.init),
                     .seed = seed};
  head_ = register_module("head", std::make_shared<LanguageHead>(
                                      config.head, site, encoder_->words(), vocabulary.outputs,
                                      config.encoder.block.norm_epsilon));
}

Tensor LanguageModel::operator()(const Tensor& tokens, Context& context) {
  return (*head_)((*encoder_)(tokens, context));
}

State LanguageModel::start(int64_t lanes, const Random& random) const {
  State state;
  Context context = {.random = random};
  encoder_->start(state, lanes, encoder_->max_length(), context);
  return state;
}

Tensor LanguageModel::extend(const Tensor& tokens, State& state, Context& context) {
  return (*head_)(encoder_->extend(tokens, state, context));
}

Continuation LanguageModel::continuation(int64_t lanes, const Random& random) const {
  const auto logits = [head = head_](const Tensor& x) { return (*head)(x); };
  return continuation_of(encoder_, logits, lanes, encoder_->max_length(), {.random = random});
}

}  // namespace longbow
