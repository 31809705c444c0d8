#pragma once
#include "longbow/models/encoder/encoder.h"
#include "longbow/nn/contract/linear.h"

namespace longbow {

// An encoder and two logits for every token: that a span starts, and that it ends there. Tokens
// outside the context get the least logit, so that no probability is left for them.
class SpanModel : public Part {
 public:
  SpanModel(const EncoderConfig& config, int64_t vocabulary, uint64_t seed);
  // tokens [B, N], where [B, N] bool or undefined: tokens that may be part of a span (with the
  // mask: of the real ones) -> [B, 2, N] in float32 at least.
  Tensor operator()(const Tensor& tokens, const Tensor& where, Context& context);

 private:
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Linear> output_;
};

// logits [B, 2, N] -> [B, 2]: the first and the last place of the span with the largest sum of
// both logits, of those that do not end before they start and have at most `most` tokens (0: any).
// The first such start, and the first end for it, when several are alike.
Tensor best_spans(const Tensor& logits, int64_t most);

}  // namespace longbow
