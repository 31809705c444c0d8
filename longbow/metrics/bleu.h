#pragma once
// BLEU (Papineni et al., 2002) as sacreBLEU 2 computes it (Post, 2018): the geometric mean of
// n-gram precisions, times a penalty for hypotheses that are shorter than their references.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/metrics/bleu_tokenizer.h"

namespace longbow::metrics {

// What a precision without matches counts as; Chen and Cherry, 2014.
enum class BleuSmoothing {
  exp,    // 1/2 of a match for the first such order, 1/4 for the next, …
  floor,  // `smooth_value` matches
  add_k,  // `smooth_value` is added to matches and totals of every order above 1
  none,   // the score is 0
};
constexpr std::array<std::string_view, 4> names_of(BleuSmoothing) {
  return {"exp", "floor", "add-k", "none"};
}

constexpr size_t kMostBleuOrder = 8;

struct BleuOptions {
  BleuTokenizer tokenizer = BleuTokenizer::v13a;
  bool lowercase = false;
  BleuSmoothing smoothing = BleuSmoothing::exp;
  std::optional<double> smooth_value{};  // none: 0.1 for floor, 1 for add-k
  size_t max_order = 4;                  // 1 to kMostBleuOrder
  bool effective_order = false;  // leave out orders that the hypothesis is too short for; take this
                                 // for single sentences
};

// What a sentence contributes. The statistics of a corpus are the sum over its sentences.
struct BleuStatistics {
  std::array<int64_t, kMostBleuOrder> matches{}, totals{};  // n-grams of order 1, 2, …
  int64_t hypothesis_length = 0;
  int64_t reference_length = 0;  // of the reference that is closest in length

  BleuStatistics& operator+=(const BleuStatistics& other);
};

struct BleuScore {
  double score = 0;                // 0 to 100
  std::vector<double> precisions;  // in percent, smoothed
  double brevity_penalty = 1;
  BleuStatistics statistics;  // before smoothing
};

BleuStatistics bleu_statistics(std::string_view hypothesis,
                               std::span<const std::string_view> references,
                               const BleuOptions& options = {});
// One for each hypothesis; references[r][i] is reference r of hypothesis i.
std::vector<BleuStatistics> bleu_statistics(std::span<const std::string> hypotheses,
                                            std::span<const std::vector<std::string>> references,
                                            const BleuOptions& options = {});

BleuScore bleu_of(const BleuStatistics& statistics, const BleuOptions& options = {});
BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const std::vector<std::string>> references,
                      const BleuOptions& options = {});

// "BLEU = 18.68 50.4/24.0/13.2/7.6 (BP = 1.000 ratio = 1.032 hyp_len = 64699 ref_len = 62688)"
std::string to_text(const BleuScore& score);
// "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:longbow-0.1.0". `trials` is what a
// statistical test adds (signature_of in significance.h), or "".
std::string bleu_signature(const BleuOptions& options, size_t references,
                           std::string_view trials = "");

}  // namespace longbow::metrics
