#pragma once
// Whether a difference between two systems is chance: tests over the statistics of sentences
// (Koehn, 2004; Riezler and Maxwell, 2005), with the numbers that sacreBLEU draws. Statistics are
// structs with operator+=, and `score` makes a number of a sum of them.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/metrics/pcg64.h"

namespace longbow::metrics {

struct Trials {
  size_t count = 1000;
  uint64_t seed = 12345;
};

struct Interval {
  double mean = 0, half_width = 0;  // 95 % of the scores are within mean ± half_width
};

enum class PairedTest { bootstrap, randomization };
constexpr std::array<std::string_view, 2> names_of(PairedTest) {
  return {"bootstrap", "randomization"};
}
// "bs:1000|seed:12345" or "ar:1000|seed:12345", for a signature.
std::string signature_of(PairedTest test, const Trials& trials);

// Half of the range that remains without the lowest and the highest fortieth.
Interval confidence_interval(std::vector<double> scores);

// The share of trials, ours among them, that differ by more than we observed.
double p_value_of(std::span<const double> differences, double observed);

template <class Statistics>
Statistics sum_of(std::span<const Statistics> sentences) {
  Statistics sum{};
  for (const auto& sentence : sentences) sum += sentence;
  return sum;
}

// The scores of samples of sentences, drawn with replacement.
template <class Statistics, class Score>
std::vector<double> bootstrap_scores(std::span<const Statistics> sentences, const Score& score,
                                     const Trials& trials) {
  Pcg64 random(trials.seed);
  std::vector<double> scores(trials.count);
  for (auto& value : scores) {
    Statistics sum{};
    for (size_t i = 0; i < sentences.size(); ++i)
      sum += sentences[random.below(static_cast<uint32_t>(sentences.size()))];
    value = score(sum);
  }
  return scores;
}

// Both systems on the same samples: how often their difference is further from its mean than the
// observed difference is from 0.
template <class Statistics, class Score>
double paired_bootstrap(std::span<const Statistics> first, std::span<const Statistics> second,
                        const Score& score, const Trials& trials) {
  if (first.size() != second.size())
    throw std::invalid_argument("paired_bootstrap: systems of different length");
  auto differences = bootstrap_scores(first, score, trials);
  const auto others = bootstrap_scores(second, score, trials);  // the same seed, the same samples
  double mean = 0;
  for (size_t i = 0; i < differences.size(); ++i) {
    differences[i] = std::abs(differences[i] - others[i]);
    mean += differences[i];
  }
  mean /= static_cast<double>(differences.size());
  for (auto& difference : differences) difference -= mean;
  return p_value_of(differences, std::abs(score(sum_of(first)) - score(sum_of(second))));
}

// Approximate randomization: the outputs of the systems are exchanged for half of the sentences.
template <class Statistics, class Score>
double paired_randomization(std::span<const Statistics> first, std::span<const Statistics> second,
                            const Score& score, const Trials& trials) {
  if (first.size() != second.size())
    throw std::invalid_argument("paired_randomization: systems of different length");
  Pcg64 random(trials.seed);
  std::vector<double> differences(trials.count);
  for (auto& difference : differences) {
    Statistics left{}, right{};
    for (size_t i = 0; i < first.size(); ++i) {
      const bool stays = random.coin();
      left += stays ? first[i] : second[i];
      right += stays ? second[i] : first[i];
    }
    difference = std::abs(score(left) - score(right));
  }
  return p_value_of(differences, std::abs(score(sum_of(first)) - score(sum_of(second))));
}

}  // namespace longbow::metrics
