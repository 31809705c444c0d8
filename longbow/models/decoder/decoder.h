#pragma once
#include "longbow/models/encoder/encoder.h"
#include "longbow/nn/layers/layer_norm.h"

namespace longbow {

struct DecoderConfig {
  int64_t width = 64, heads = 2, head_width = 0, layers = 2, max_length = 0;
  bool bias = true;
  Positions positions = Positions::learned;
  Init init = Init::bert;
  double embedding_dropout = 0;
  BlockConfig block = {};
  Node attention = Node::string("softmax"), cross_attention = Node::string("softmax");
};
template <class V>
void fields(V& v, DecoderConfig& c) {
  v("width", c.width, "model width C", range(1, 65536));
  v("heads", c.heads, "attention heads H", range(1, 1024));
  v("head_width", c.head_width, "head width D; 0 = width / heads", range(0, 65536));
  v("layers", c.layers, "blocks in the stack", range(1, 1024));
  v("max_length", c.max_length,
    "longest sequence in tokens; 0 = the longest of the data, rounded up to train.bucket",
    range(0, 1 << 30));
  v("bias", c.bias, "biases on the attention projections");
  v("positions", c.positions, "as in the encoder, except axial");
  v("init", c.init, "initial values, as in the encoder");
  v("embedding_dropout", c.embedding_dropout, "dropout rate on the embeddings", range(0, 0.99));
  v("block", c.block, "residuals and feed-forward");
  v("attention", c.attention, "mechanism of the self-attention: causal, with a decoding state");
  v("cross_attention", c.cross_attention,
    "mechanism that reads the encoder's output, with a decoding state");
}

// What a decoder is built beside.
struct DecoderSite {
  int64_t vocabulary = 0, memory_width = 0, memory_length = 0;
  uint64_t seed = 0;
  Tensor words = {};  // of another part, to be shared: [V, C]
};

// UserError with file and line when a layer's mechanism does not exist, has wrong options, is not
// causal, cannot read a memory or cannot decode, or when sizes do not fit each other. What depends
// on a length of 0 is not checked.
void check_decoder(const DecoderConfig& config, const DecoderSite& place, const Node& tree);

// Token embeddings, positions, blocks that read their past and a memory, and a last norm.
class Decoder : public Part {
 public:
  Decoder(const DecoderConfig& config, const DecoderSite& site);
  // [B, N] -> [B, N, C]. The mask is that of the tokens; context.memory and memory_keep are read.
  Tensor operator()(const Tensor& tokens, Context& context);
  // The memory is read here, once a sequence, and not in the extensions.
  void start(State& state, int64_t lanes, int64_t capacity, Context& context);
  Tensor extend(const Tensor& tokens, State& state, Context& context);  // [B, T] -> [B, T, C]

  const Tensor& words() const { return embedding_->words(); }  // [V, C]
  int64_t max_length() const { return config_.max_length; }

 private:
  Tensor normed(const Tensor& x) const { return norm_ ? (*norm_)(x) : x; }
  DecoderConfig config_;
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Embedding> embedding_;
  std::shared_ptr<Stack> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace longbow
