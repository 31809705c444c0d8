#pragma once
#include "longbow/models/encoder/embedding.h"
#include "longbow/nn/layers/layer_norm.h"
#include "longbow/nn/layers/stack.h"

namespace longbow {

// The blocks of an encoder.
std::vector<Block> blocks_of(const EncoderConfig& config, const Site& site);

// Token embeddings, positions, blocks and a last norm: [B, N] -> [B, N, C].
class Encoder : public Part {
 public:
  // `words` [V, E] of another module can be read instead of words of its own.
  Encoder(const EncoderConfig& config, int64_t vocabulary, uint64_t seed, const Tensor& words = {});
  // `front` [front, C] are rows before the tokens, seen like them; the mask and the result have
  // them too.
  Tensor operator()(const Tensor& tokens, Context& context, const Tensor& front = {});
  // The embeddings and what each block makes of them, before the last norm: layers + 1 tensors.
  std::vector<Tensor> hidden(const Tensor& tokens, Context& context);
  // Decoding, by a causal encoder: an empty state for `lanes` sequences of up to `capacity` tokens,
  // then the next tokens [B, T] of each; context.mask.keep [B, T] says which of them are real.
  void start(State& state, int64_t lanes, int64_t capacity, Context& context);
  Tensor extend(const Tensor& tokens, State& state, Context& context);
  int64_t width() const { return config_.width; }
  int64_t max_length() const { return config_.max_length; }
  const Tensor& words() const { return embedding_->words(); }  // [V, E], or undefined: pixels

 private:
  Tensor embedded(const Tensor& tokens, Context& context, const Tensor& front = {}) const;
  EncoderConfig config_;
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Embedding> embedding_;
  std::vector<Block> blocks_;
  std::shared_ptr<Stack> layers_;  // of the blocks
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace longbow
