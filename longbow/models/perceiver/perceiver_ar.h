#pragma once
#include "longbow/models/decoder/continuation.h"
#include "longbow/models/heads/language_model.h"
#include "longbow/models/perceiver/perceiver.h"

namespace longbow {

struct PerceiverArConfig {
  PerceiverArConfig() {
    encoder.causal = true;
    head.transform = false;
  }
  EncoderConfig encoder = {};
  int64_t latents = 64;
  CrossConfig cross = {};
  double prefix_dropout = 0;
  LanguageHeadConfig head = {};
};
template <class V>
void fields(V& v, PerceiverArConfig& c) {
  fields(v, c.encoder);
  v("latents", c.latents, "consecutive tokens N that the latent blocks work on, each a latent",
    range(1, 1 << 20));
  v("cross", c.cross, "the cross-attention from the latents to all tokens before them");
  v("prefix_dropout", c.prefix_dropout,
    "fraction of the tokens before the latents that a training step does not read, drawn anew in "
    "each",
    range(0, 0.99));
  fields(v, c.head);
}

// UserError with file and line for what cannot be built; `tree` is where the config was read from.
void check_perceiver_ar(const PerceiverArConfig& config, const Node& tree);

// Perceiver AR (Hawthorne et al., 2022, arXiv:2202.07765), a language model: the embeddings of N
// consecutive tokens are the latents. Each reads itself and all tokens before it, and the blocks
// are causal among the latents.
//   z_i = Cross(x_i, x_0 .. x_i) for the N places i,   y = LN(Blocks(z)),   head(y_i) -> token i +
//   1
// With N = all tokens it is a causal transformer, whose first layer has a norm of its own for keys
// and values.
class PerceiverAr : public Part {
 public:
  PerceiverAr(const PerceiverArConfig& config, int64_t vocabulary, uint64_t seed);

  // Tokens [B, M], real ones first, and the place [B] of the first latent of each row, undefined:
  // the last N real tokens are the latents. N is at most the config's.
  struct Rows {
    Tensor logits;  // [B, N, V] of the token that follows
    Tensor places;  // [B, N] int64 where the latents stand; behind the last real token: padding
  };
  Rows operator()(const Tensor& tokens, const Tensor& first, Context& context);
  // Every token is a latent once: tokens 0 to N - 1, then N to 2 N - 1, and so on, each block with
  // all tokens before it to read. [B, M] -> [B, M, V].
  Tensor all(const Tensor& tokens, Context& context);

  // `lanes` texts that hold nothing yet, with room for `capacity` tokens each.
  State start(int64_t lanes, int64_t capacity, const Random& random) const;
  // [B, T] more tokens -> [B, V] of what follows the last real one: the same as `all` has there.
  // Keys and values of all tokens and those of the latents are kept. A full set of N latents does
  // not slide but begins anew with the next token.
  Tensor extend(const Tensor& tokens, State& state, Context& context) const;
  Continuation continuation(int64_t lanes, const Random& random);
  int64_t max_length() const { return config_.encoder.max_length; }

 private:
  struct Keys {
    Tensor rows, places;  // [B, M, C], [1 or B, M]
  };
  Tensor embedded(const Tensor& tokens, Context& context) const;
  Keys kept_keys(const Tensor& x, const Tensor& places, const Context& context) const;
  Tensor finished(const Tensor& z) const;
  PerceiverArConfig config_;
  std::shared_ptr<Embedding> embedding_;
  std::shared_ptr<CrossLayer> cross_;
  std::shared_ptr<Tower> blocks_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<LanguageHead> head_;
};

}  // namespace longbow
