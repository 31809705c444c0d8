#include "longbow/tasks/scores.h"

#include <ATen/ATen.h>

#include <limits>

namespace longbow {

Tensor class_tallies(const Tensor& logits, const Tensor& targets) {
  const auto wanted = targets.flatten(), guessed = logits.detach().flatten(0, -2).argmax(-1);
  const auto counted = wanted != kIgnore;
  const auto classes = [&](const Tensor& of, const Tensor& counts) {
    return at::zeros({logits.size(-1)}, logits.options().dtype(at::kDouble))
        .scatter_add(0, of.clamp_min(0), counts.to(at::kDouble));
  };
  return at::stack({classes(wanted, counted.logical_and(wanted == guessed)),
                    classes(wanted, counted), classes(guessed, counted)});
}

double macro_f1(const Tensor& tallies) {
  const auto hits = tallies[0], seen = tallies[1] + tallies[2];
  const auto classes = (seen > 0).sum().item<double>();
  return classes == 0 ? 0 : (2 * hits / seen.clamp_min(1)).sum().item<double>() / classes;
}

Outcome tallied_loss(const Tensor& logits, const Batch& batch, const TaskOptions& options,
                     bool training) {
  auto outcome = classification_loss(logits, batch.targets, batch.samples, options, training);
  if (!training) outcome.sums["tallies"] = class_tallies(logits, batch.targets);
  return outcome;
}

std::vector<Metric> class_metrics(const Tensors& sums, ClassMetric first) {
  std::vector<Metric> all = {{"accuracy", mean_of(sums, "correct", "count")},
                             {"loss", mean_of(sums, "loss", "weight"), false}};
  if (const auto tallies = sums.find("tallies"); tallies != sums.end())
    all.insert(first == ClassMetric::macro_f1 ? all.begin() : all.begin() + 1,
               {"macro_f1", macro_f1(tallies->second)});
  return all;
}

Tensors correlation_sums(const Tensor& guesses, const Tensor& targets) {
  const auto x = guesses.detach().to(at::kDouble), y = targets.to(at::kDouble);
  return {{"guesses", x.sum(0)},
          {"targets", y.sum(0)},
          {"products", (x * y).sum(0)},
          {"guess_squares", (x * x).sum(0)},
          {"target_squares", (y * y).sum(0)}};
}

double pearson(const Tensors& sums, double count) {
  const auto x = sums.at("guesses"), y = sums.at("targets");
  // Rounding leaves a little of a variance that is zero.
  const double rounding = count * std::numeric_limits<double>::epsilon();
  const auto variance = [&](const Tensor& sum, const Tensor& squares) {
    const auto left = squares - sum * sum / count;
    return at::where(left > rounding * squares, left, at::zeros_like(left));
  };
  const auto spread =
      (variance(x, sums.at("guess_squares")) * variance(y, sums.at("target_squares"))).sqrt();
  const auto r = (sums.at("products") - x * y / count) / spread;
  return at::where(spread > 0, r, at::zeros_like(r)).mean().item<double>();
}

Tensor span_f1(const Tensor& guessed, const Tensor& wanted) {
  const auto size = [](const Tensor& first, const Tensor& last) {
    return (last - first + 1).clamp_min(0).to(at::kDouble);
  };
  const auto shared = size(at::maximum(guessed.select(1, 0), wanted.select(1, 0)),
                           at::minimum(guessed.select(1, 1), wanted.select(1, 1)));
  return 2 * shared /
         (size(guessed.select(1, 0), guessed.select(1, 1)) +
          size(wanted.select(1, 0), wanted.select(1, 1)))
             .clamp_min(1);
}

}  // namespace longbow
