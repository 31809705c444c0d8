#pragma once
// What the objectives over words count.
#include "longbow/tasks/task.h"

namespace longbow {

// classification_loss(), and "nats": the negative log-likelihood of all targets alike and without
// smoothing.
Outcome language_loss(const Tensor& logits, const Tensor& targets, int64_t samples,
                      const TaskOptions& options, bool training);

// What follows each token of a row, kIgnore behind the last: [B, N] -> [B, N].
Tensor next_tokens(const Tensor& tokens, const Tensor& lengths);

// "perplexity", "loss", "bits_per_token" and "accuracy". Perplexity is the exponential of the mean
// over every target of the split.
std::vector<Metric> word_metrics(const Tensors& sums);

}  // namespace longbow
