#pragma once
// Scores of real-valued predictions for classes. `positive` is 1 for the class that is looked for
// and 0 for the other.
#include <cstddef>
#include <cstdint>
#include <span>

namespace longbow::metrics {

// The probability that a positive sample scores above a negative one; ties count half. Not a number
// unless both occur.
double roc_auc(std::span<const double> scores, std::span<const uint8_t> positive);

// The sum over thresholds of precision times the recall that was gained; 0 without positives.
double average_precision(std::span<const double> scores, std::span<const uint8_t> positive);

// The mean negative log likelihood. Probabilities of 0 and 1 are moved by one rounding, so that the
// loss stays finite.
double log_loss(std::span<const double> probabilities, std::span<const uint8_t> positive);
// The same over several classes: probabilities [samples, classes], targets [samples].
double log_loss(std::span<const double> probabilities, size_t classes,
                std::span<const size_t> targets);

}  // namespace longbow::metrics
