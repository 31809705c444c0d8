#pragma once
// Metrics made of sums that add up over batches.
#include "longbow/tasks/task.h"

namespace longbow {

// [3, K] float64, by class: hits, targets, guesses. logits [..., K], targets [...] (kIgnore: none).
Tensor class_tallies(const Tensor& logits, const Tensor& targets);
// The mean of the F1 scores of all classes that are a target or a guess somewhere.
double macro_f1(const Tensor& tallies);

// Which of them comes first, and so chooses the weights.
enum class ClassMetric { accuracy, macro_f1 };
constexpr std::array<std::string_view, 2> names_of(ClassMetric) {
  return {"accuracy", "macro_f1"};
}
// classification_loss(), and the "tallies" while evaluating.
Outcome tallied_loss(const Tensor& logits, const Batch& batch, const TaskOptions& options,
                     bool training);
// Accuracy, macro F1 (where there are "tallies") and loss.
std::vector<Metric> class_metrics(const Tensors& sums, ClassMetric first);

// What a correlation of guesses and targets [B, K] is made of: [K] float64 each, under "guesses",
// "targets", "products", "guess_squares", "target_squares".
Tensors correlation_sums(const Tensor& guesses, const Tensor& targets);
// Pearson's r over `count` rows, averaged over the columns; 0 for a column that does not vary.
double pearson(const Tensors& sums, double count);

// Of spans [B, 2], first and last place: [B] float64. Two lengths and their overlap.
Tensor span_f1(const Tensor& guessed, const Tensor& wanted);

}  // namespace longbow
