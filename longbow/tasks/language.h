#pragma once
// What the objectives over words count.
#include "longbow/tasks/task.h"

namespace longbow {

// classification_loss(), and "nats": the negative log-likelihood of all targets alike and without
// smoothing.
Outcome language_loss(const Tensor& logits, const Tensor& targets, int64_t samples,
                      const TaskOptions& options, bool training);

// UserError at its place in `model` when `end`, the id that ends a written text, is none of the
// data.
void check_end(int64_t end, const Splits& splits, const Node& model);
// The texts of a model that continues them, which holds `max_length` tokens. What begins and ends a
// target of the data is no token there, where only its sources are read. `end` is the id that ends
// a written text, 0: the data's, or what follows a text of the data ([SEP]).
Texts continued_texts(const Splits& splits, const Symbols& symbols, int64_t max_length,
                      int64_t end);
// What such a model writes behind the prompts of a batch.
Decoded continued(const Continuation& model, const Batch& batch, const Texts& texts,
                  const DecodingConfig& how, const Random& random);

// What follows each token of a row, kIgnore behind the last: [B, N] -> [B, N].
Tensor next_tokens(const Tensor& tokens, const Tensor& lengths);

// How much text the targets stand for, for scores that do not depend on the tokenizer. Nothing
// where the data is not text.
class TextLengths {
 public:
  TextLengths(const Splits& splits, at::Device device);
  // Adds the sums "words" and "bytes" of targets [...] (kIgnore: none).
  void count(const Tensor& targets, Tensors& sums) const;

 private:
  Tensor words_, bytes_;  // [V] float64, by token
};

// "perplexity", "loss", "bits_per_token" and "accuracy". Perplexity is the exponential of the mean
// over every target of the split. "word_perplexity" and "bits_per_byte" where there are lengths.
std::vector<Metric> word_metrics(const Tensors& sums);

}  // namespace longbow
