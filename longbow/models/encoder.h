#pragma once
#include <array>
#include <string_view>

#include "longbow/models/layer_attention.h"
#include "longbow/nn/stack.h"

namespace longbow {

enum class Positions { none, sinusoidal, learned };
constexpr std::array<std::string_view, 3> names_of(Positions) {
  return {"none", "sinusoidal", "learned"};
}
enum class Init { bert, xavier, lra, paper };
constexpr std::array<std::string_view, 4> names_of(Init) {
  return {"bert", "xavier", "lra", "paper"};
}

struct EncoderConfig {
  int64_t width = 64, heads = 2, head_width = 0, layers = 2, max_length = 0;
  bool causal = false, bias = true;
  Positions positions = Positions::learned;
  Init init = Init::bert;
  double embedding_dropout = 0;
  BlockConfig block = {};
  Node attention = Node::string("softmax");
};
template <class V>
void fields(V& v, EncoderConfig& c) {
  v("width", c.width, "model width C", range(1, 65536));
  v("heads", c.heads, "attention heads H", range(1, 1024));
  v("head_width", c.head_width, "width of a head D; 0 = width / heads", at_least(0));
  v("layers", c.layers, "blocks in the stack", range(1, 1024));
  v("max_length", c.max_length, "longest sequence; 0 = the longest of the data", at_least(0));
  v("causal", c.causal, "tokens see only what stands before them");
  v("bias", c.bias, "biases on the attention projections");
  v("positions", c.positions, "what is added to the embeddings");
  v("init", c.init, "initial values of the matrices");
  v("embedding_dropout", c.embedding_dropout, "rate on the embeddings", range(0, 0.99));
  v("block", c.block, "residuals and feed-forward");
  v("attention", c.attention,
    "a mechanism: {name: linformer, rank: 64}, with per_layer, or a list by layers");
}

// UserError with file and line when a layer's mechanism does not exist, has wrong options, or
// cannot be causal.
void check_attention(const EncoderConfig& config);
// That, and whether the width divides among the heads; `tree` is where the config was read from.
void check_encoder(const EncoderConfig& config, const Node& tree);

// Token embeddings, positions, blocks and a last norm: [B, N] -> [B, N, C].
class Encoder : public Part {
 public:
  Encoder(const EncoderConfig& config, int64_t vocabulary, uint64_t seed);
  Tensor operator()(const Tensor& tokens, Context& context);
  // Decoding, by a causal encoder: an empty state for `lanes` sequences of up to `capacity` tokens,
  // then the next tokens [B, T] of each; context.mask.keep [B, T] says which of them are real.
  void start(State& state, int64_t lanes, int64_t capacity, Context& context);
  Tensor extend(const Tensor& tokens, State& state, Context& context);
  int64_t width() const { return config_.width; }

 private:
  Tensor embedded(const Tensor& tokens, Context& context);
  EncoderConfig config_;
  Tensor words_, positions_;
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Stack> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace longbow
