#include "longbow/tasks/language.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

namespace longbow {

Outcome language_loss(const Tensor& logits, const Tensor& targets, int64_t samples,
                      const TaskOptions& options, bool training) {
  auto outcome = classification_loss(logits, targets, samples, options, training);
  auto& nats = outcome.sums["nats"] = outcome.sums.at("loss");
  if (options.normalise == Normalise::targets && !(training && options.label_smoothing > 0))
    return outcome;
  const at::NoGradGuard no_grad;
  const auto rows = logits.detach().flatten(0, -2);
  nats = at::cross_entropy_loss(rows.to(wide(rows)), targets.flatten(), {}, at::Reduction::Sum,
                                kIgnore);
  return outcome;
}

Tensor next_tokens(const Tensor& tokens, const Tensor& lengths) {
  const auto place = at::arange(1, tokens.size(1) + 1, lengths.options()).unsqueeze(0);
  return tokens.roll(-1, 1).masked_fill(place >= lengths.unsqueeze(1), kIgnore);
}

std::vector<Metric> word_metrics(const Tensors& sums) {
  const double nats = mean_of(sums, "nats", "count");
  return {{"perplexity", std::exp(nats), false},
          {"loss", mean_of(sums, "loss", "weight"), false},
          {"bits_per_token", nats / std::numbers::ln2, false},
          {"accuracy", mean_of(sums, "correct", "count")}};
}

}  // namespace longbow
