#pragma once
#include "longbow/models/encoder/encoder.h"
#include "longbow/models/encoder/pooling.h"

namespace longbow {

// An encoder's config with BERT's own defaults.
EncoderConfig bert_encoder();

struct BertConfig {
  EncoderConfig encoder = bert_encoder();
  int64_t vocabulary = 30522, token_types = 2;
  bool pooler = true;
};
template <class V>
void fields(V& v, BertConfig& c) {
  fields(v, c.encoder);
  v("vocabulary", c.vocabulary, "tokens V", range(1, 1 << 30));
  v("token_types", c.token_types, "kinds of segments that a token can belong to", range(1, 65536));
  v("pooler", c.pooler, "a layer over the first token, tanh(W h + b)");
}

// The encoder that a BERT is: with segments, and a norm over the embeddings.
EncoderConfig encoder_of(const BertConfig& config);

// BERT (Devlin et al., 2018, arXiv:1810.04805) with any mechanism in the place of its attention:
//   h_0 = LN(word[id] + position[t] + type[s]),   h_l = block_l(h_l-1),
//   pooled = tanh(W h_L,0 + b),
// with residuals as LN(x + F(x)). Positions count real tokens.
class Bert : public Part {
 public:
  Bert(const BertConfig& config, uint64_t seed);
  // tokens [B, N] and the type of each (undefined: 0) -> [B, N, C].
  Tensor operator()(const Tensor& tokens, const Tensor& types, Context& context);
  // The embeddings and what each layer makes of them: layers + 1 tensors [B, N, C].
  std::vector<Tensor> hidden(const Tensor& tokens, const Tensor& types, Context& context);
  Tensor pooled(const Tensor& last) const;  // [B, N, C] of the last layer -> [B, C]
  const BertConfig& config() const { return config_; }

 private:
  BertConfig config_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Pooler> pooler_;
};

}  // namespace longbow
