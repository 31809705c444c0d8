#pragma once
#include "longbow/models/encoder/encoder_config.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/layer_norm.h"

namespace longbow {

// What a stack reads: words or pixels, positions and segments, added up, then a norm, dropout and a
// projection to the model width, each where the config has it: [B, N] -> [B, N, C].
class Embedding : public Part {
 public:
  // `words` [V, E] of another module are read instead of words of its own; E is then the width.
  Embedding(const Site& site, const EncoderConfig& config, int64_t vocabulary,
            const Tensor& words = {});
  Tensor operator()(const Tensor& tokens, const Context& context) const;
  const Tensor& words() const { return words_; }  // [V, E], undefined where it reads pixels

 private:
  void add_positions(const Site& site, const EncoderConfig& config, int64_t width);
  Tensor positions(const Tensor& tokens, const Context& context) const;  // [B, N, E]
  // Words or pixels with their positions, where there are any: [B, N, E].
  Tensor placed(const Tensor& tokens, const Context& context) const;
  bool counts_from_zero(const Context& context) const;

  std::string path_;
  double scale_, dropout_;
  int64_t padding_, columns_ = 0;
  bool side_by_side_ = false;
  Tensor words_, positions_, rows_of_, columns_of_, segments_;
  std::shared_ptr<Pixels> pixels_;  // in place of words
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> projection_;
};

}  // namespace longbow
