#include "longbow/models/heads/replaced_token.h"

#include <ATen/ATen.h>

#include <limits>

#include "longbow/core/seed.h"
#include "longbow/nn/contract/linear.h"

namespace longbow {
namespace {

// Two networks in one model: the same sites must not mean the same numbers.
constexpr int64_t kGenerator = 0x67656e65;

}  // namespace

LanguageModelConfig generator_of(const ReplacedTokenConfig& config) {
  LanguageModelConfig result = {.encoder = config.encoder, .head = config.head};
  auto& encoder = result.encoder;
  const auto& own = config.generator;
  encoder.width = own.width > 0 ? own.width : std::max<int64_t>(1, encoder.width / 4);
  encoder.heads = own.heads > 0 ? own.heads : std::max<int64_t>(1, encoder.heads / 4);
  if (own.layers > 0) encoder.layers = own.layers;
  if (own.attention) encoder.attention = *own.attention;
  return result;
}

ReplacedTokenModel::ReplacedTokenModel(const ReplacedTokenConfig& config,
                                       const Vocabulary& vocabulary, uint64_t seed)
    : encoder_(register_module(
          "encoder", std::make_shared<Encoder>(config.encoder, vocabulary.inputs, seed))) {
  generator_ = register_module("generator",
                               std::make_shared<LanguageModel>(
                                   generator_of(config), vocabulary, seed ^ hash_name("generator"),
                                   config.generator.shared ? encoder_->words() : Tensor()));
  const Site site = {.path = "head", .init = "xavier", .seed = seed};
  const int64_t width = config.encoder.width;
  hidden_ = register_module("hidden", std::make_shared<Linear>(site.at("hidden"), width, width));
  output_ = register_module("output", std::make_shared<Linear>(site.at("output"), width, 1));
}

Tensor ReplacedTokenModel::generated(const Tensor& masked, Context& context) {
  Tensors maps;  // both networks have layers of the same names
  Context own = {.mask = context.mask,
                 .random = context.random,
                 .choices = context.choices,
                 .maps = context.maps ? &maps : nullptr};
  if (own.random.key.defined()) own.random.key = own.random.key.bitwise_xor(kGenerator);
  const auto logits = (*generator_)(masked, own);
  if (own.loss.defined()) context.add_loss(own.loss);
  for (const auto& [path, map] : maps) (*context.maps)["generator." + path] = map;
  return logits;
}

Tensor ReplacedTokenModel::operator()(const Tensor& tokens, Context& context) {
  const auto x = (*encoder_)(tokens, context);
  return (*output_)(at::gelu((*hidden_)(x))).squeeze(-1);
}

Tensor drawn(const Tensor& logits, int64_t first, const Random& random, const std::string& site) {
  const at::NoGradGuard no_grad;
  auto scores = logits.detach().to(at::kFloat);
  // The largest of logits plus Gumbel noise is a draw from their softmax. Uniforms are moved
  // away from 0 and 1, so that both logarithms are finite.
  auto u = random.uniform(scores.sizes(), site).mul_(1 - 0x1p-23).add_(0x1p-25);
  scores = scores - u.log_().neg_().log_();
  scores.narrow(-1, 0, first).fill_(-std::numeric_limits<float>::infinity());
  return scores.argmax(-1);
}

}  // namespace longbow
