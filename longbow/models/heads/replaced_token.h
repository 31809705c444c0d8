#pragma once
// Replaced-token detection (ELECTRA, Clark et al., 2020, arXiv:2003.10555): a small masked language
// model fills hidden tokens with its own words, and the encoder says of every token whether it was
// replaced.
#include <optional>

#include "longbow/models/heads/language_model.h"
#include "longbow/nn/contract/linear.h"

namespace longbow {

struct GeneratorConfig {
  int64_t width = 0, heads = 0, layers = 0;
  std::optional<Node> attention = {};
  bool shared = true;
};
template <class V>
void fields(V& v, GeneratorConfig& c) {
  v("width", c.width, "of the generator; 0 = a quarter of the model's", at_least(0));
  v("heads", c.heads, "of the generator; 0 = a quarter of the model's, at least 1", at_least(0));
  v("layers", c.layers, "of the generator; 0 = as many as the model's", at_least(0));
  v("attention", c.attention, "mechanism of the generator; none = the model's");
  v("shared", c.shared, "one matrix of word embeddings for generator and model");
}

struct ReplacedTokenConfig {
  EncoderConfig encoder = {};
  GeneratorConfig generator = {};
  LanguageHeadConfig head = {};
};
template <class V>
void fields(V& v, ReplacedTokenConfig& c) {
  fields(v, c.encoder);
  v("generator", c.generator, "the masked language model that replaces tokens");
  fields(v, c.head);
}

// What the generator is, spelled out.
LanguageModelConfig generator_of(const ReplacedTokenConfig& config);

class ReplacedTokenModel : public Part {
 public:
  ReplacedTokenModel(const ReplacedTokenConfig& config, const Vocabulary& vocabulary,
                     uint64_t seed);
  // The generator's logits [B, N, V] over tokens some of which are masked.
  Tensor generated(const Tensor& masked, Context& context);
  // The logit of every token for having been replaced: [B, N] -> [B, N].
  Tensor operator()(const Tensor& tokens, Context& context);

 private:
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<LanguageModel> generator_;
  std::shared_ptr<Linear> hidden_, output_;
};

// One word a token, drawn by the logits [..., V] from those from `first` on; without a gradient.
Tensor drawn(const Tensor& logits, int64_t first, const Random& random, const std::string& site);

}  // namespace longbow
