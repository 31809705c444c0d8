#pragma once
#include "longbow/models/decoder/decoding.h"
#include "longbow/models/encoder/encoder.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/layer_norm.h"

namespace longbow {

struct LanguageHeadConfig {
  bool tied = true, transform = true;
  Activation activation = Activation::gelu;
};
template <class V>
void fields(V& v, LanguageHeadConfig& c) {
  v("tied", c.tied, "the output matrix is that of the word embeddings");
  v("transform", c.transform, "a layer, an activation and a norm before the output matrix");
  v("head_activation", c.activation, "of the layer of `transform`");
}

// UserError when words of that width cannot be tied to a model of this one; `tree` is where the
// config was read from.
void check_language_head(const LanguageHeadConfig& config, int64_t words, int64_t width,
                         const Node& tree);

// Which word stands at a token: Linear, activation and LayerNorm where there is a transform, then
// the words (tied) or a matrix of its own, and a bias for every word. [..., C] -> [..., V].
class LanguageHead : public Part {
 public:
  // `words` may have rows behind the vocabulary: inputs that are never an answer.
  LanguageHead(const LanguageHeadConfig& config, const Site& site, const Tensor& words,
               int64_t vocabulary, double norm_epsilon);
  Tensor operator()(const Tensor& x) const;

 private:
  LanguageHeadConfig config_;
  int64_t vocabulary_;
  std::shared_ptr<Linear> transform_;
  std::shared_ptr<LayerNorm> norm_;
  Tensor words_, bias_;  // words_: of the encoder, or the head's own
};

struct LanguageModelConfig {
  EncoderConfig encoder = {};
  LanguageHeadConfig head = {};
};
template <class V>
void fields(V& v, LanguageModelConfig& c) {
  fields(v, c.encoder);
  fields(v, c.head);
}

// UserError with file and line for what cannot be built.
void check_language_model(const LanguageModelConfig& config, const Node& tree);

// How many words there are to read and to answer with; `inputs` may have more, a mask token.
struct Vocabulary {
  int64_t inputs = 0, outputs = 0;
};

// An encoder and a language head: [B, N] -> [B, N, V]. Causal when the encoder is, masked
// otherwise; which tokens are hidden or counted is the task's business.
class LanguageModel : public Part {
 public:
  // `words`: those of another model, see Encoder.
  LanguageModel(const LanguageModelConfig& config, const Vocabulary& vocabulary, uint64_t seed,
                const Tensor& words = {});
  Tensor operator()(const Tensor& tokens, Context& context);
  // The same of texts that go on, of a causal one: [B, T] more tokens -> [B, T, V].
  State start(int64_t lanes, const Random& random) const;
  Tensor extend(const Tensor& tokens, State& state, Context& context);
  int64_t max_length() const { return encoder_->max_length(); }
  // To be decoded, of a causal one: `lanes` texts that hold nothing yet.
  Continuation continuation(int64_t lanes, const Random& random) const;

 private:
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<LanguageHead> head_;
};

}  // namespace longbow
