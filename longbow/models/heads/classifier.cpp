#include "longbow/models/heads/classifier.h"

#include <ATen/ATen.h>

#include <string>

#include "longbow/nn/contract/linear.h"

namespace longbow {
namespace {

EncoderConfig encoder_of(const ClassifierConfig& config) {
  auto encoder = config.encoder;
  encoder.front = config.pooling == Pooling::class_token ? 1 : 0;
  return encoder;
}

}  // namespace

void check_classifier(const ClassifierConfig& config, const Node& tree) {
  check_encoder(config.encoder, tree);
  if (config.pooling == Pooling::class_token && config.encoder.causal)
    throw UserError(tree.place_of("pooling"),
                    "model.pooling class_token reads nothing of a causal model",
                    "its token comes first; write mean, max, attention or pma");
  if (config.pooling == Pooling::class_token && config.encoder.block.convolution.columns > 0)
    throw UserError(tree.place_of("pooling"),
                    "model.pooling class_token moves the pixels of the image by one",
                    "write mean, max, attention or pma, or leave out block.convolution.columns");
}

void check_one_row(const ClassifierConfig& config, const Node& tree) {
  if (config.pooling == Pooling::none)
    throw UserError(tree.place_of("pooling"), "model.pooling none gives a row for every token",
                    "a sample has one; write mean, first, max, attention, pma or class_token");
}

ClassifierBase::ClassifierBase(const ClassifierConfig& config, int64_t vocabulary, int64_t classes,
                               uint64_t seed, int64_t rows)
    : encoder_(register_module("encoder",
                               std::make_shared<Encoder>(encoder_of(config), vocabulary, seed))) {
  if (config.pooling == Pooling::class_token)
    class_token_ = parameter("class_token", at::zeros({1, config.encoder.width}));
  const Site site = {.path = "head", .init = "xavier", .seed = seed};
  auto pooling = site.at("pooler");
  pooling.shape = {.width = config.encoder.width,
                   .heads = config.encoder.heads,
                   .head_width = config.encoder.head_width};
  pooler_ = register_module(
      "pooler", std::make_shared<Pooler>(pooling, config.pooling, config.pooler, config.seeds));
  int64_t width = pooler_->width() * rows;
  for (int64_t i = 0, next = config.head; next > 0 && i < config.head_layers; ++i, next /= 2) {
    const auto name = i == 0 ? "hidden" : "hidden_" + std::to_string(i);
    hidden_.push_back(register_module(name, std::make_shared<Linear>(site.at(name), width, next)));
    width = next;
  }
  output_ = register_module("output", std::make_shared<Linear>(site.at("output"), width, classes));
}

Tensor ClassifierBase::encoded(const Tensor& tokens, Context& context) {
  const auto x = (*encoder_)(tokens, context, class_token_);
  return (*pooler_)(x, context.mask.keep);
}

Tensor ClassifierBase::answered(const Tensor& x) const {
  auto y = x;
  for (const auto& layer : hidden_) y = (*layer)(y).relu();
  return (*output_)(y);
}

Classifier::Classifier(const ClassifierConfig& config, int64_t vocabulary, int64_t classes,
                       uint64_t seed)
    : ClassifierBase(config, vocabulary, classes, seed) {}

Tensor Classifier::operator()(const Tensor& tokens, Context& context) {
  return answered(encoded(tokens, context));
}

}  // namespace longbow
