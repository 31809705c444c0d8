#include "longbow/metrics/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "longbow/core/version.h"
#include "longbow/metrics/characters.h"
#include "longbow/metrics/ngrams.h"

namespace longbow::metrics {
namespace {

void check(const BleuOptions& options) {
  if (options.max_order < 1 || options.max_order > kMostBleuOrder)
    throw std::invalid_argument(
        fmt::format("bleu: max_order is {}, it may be 1 to {}", options.max_order, kMostBleuOrder));
}

std::string prepared(std::string_view text, const BleuOptions& options) {
  if (!options.lowercase) return tokenize(trimmed_right(text), options.tokenizer);
  return tokenize(trimmed_right(lowercase(text)), options.tokenizer);
}

double smooth_value(const BleuOptions& options) {
  return options.smooth_value.value_or(options.smoothing == BleuSmoothing::floor ? 0.1 : 1);
}

// Of two references that are equally close, the shorter one.
int64_t closest_length(int64_t length, std::span<const std::vector<std::string_view>> references) {
  int64_t closest = 0, least = -1;
  for (const auto& reference : references) {
    const auto size = static_cast<int64_t>(reference.size());
    const auto difference = std::abs(size - length);
    if (least < 0 || difference < least || (difference == least && size < closest)) {
      least = difference;
      closest = size;
    }
  }
  return closest;
}

// For each n-gram, the most that one of the references has; sequence 0 is the hypothesis.
std::vector<uint32_t> most_counts(const Ngrams& ngrams, size_t sequences) {
  auto most = ngrams.counts(1);
  for (size_t i = 2; i < sequences; ++i) {
    const auto counts = ngrams.counts(i);
    for (size_t j = 0; j < most.size(); ++j) most[j] = std::max(most[j], counts[j]);
  }
  return most;
}

double brevity_penalty(const BleuStatistics& statistics) {
  if (statistics.hypothesis_length >= statistics.reference_length) return 1;
  if (statistics.hypothesis_length == 0) return 0;
  return std::exp(1 - static_cast<double>(statistics.reference_length) /
                          static_cast<double>(statistics.hypothesis_length));
}

}  // namespace

BleuStatistics& BleuStatistics::operator+=(const BleuStatistics& other) {
  for (size_t n = 0; n < kMostBleuOrder; ++n) {
    matches[n] += other.matches[n];
    totals[n] += other.totals[n];
  }
  hypothesis_length += other.hypothesis_length;
  reference_length += other.reference_length;
  return *this;
}

BleuStatistics bleu_statistics(std::string_view hypothesis,
                               std::span<const std::string_view> references,
                               const BleuOptions& options) {
  check(options);
  if (references.empty()) throw std::invalid_argument("bleu: a hypothesis without reference");
  std::vector<std::string> texts = {prepared(hypothesis, options)};
  for (const auto reference : references) texts.push_back(prepared(reference, options));
  std::vector<std::vector<std::string_view>> words;
  words.reserve(texts.size());
  for (const auto& text : texts) words.push_back(split(text));

  BleuStatistics statistics;
  statistics.hypothesis_length = static_cast<int64_t>(words.front().size());
  statistics.reference_length =
      closest_length(statistics.hypothesis_length, std::span(words).subspan(1));
  Ngrams ngrams(number_words(words));
  for (size_t n = 0; n < options.max_order; ++n) {
    if (n > 0) ngrams.extend();
    statistics.totals[n] = static_cast<int64_t>(ngrams.of(0).size());
    if (statistics.totals[n] == 0) break;
    statistics.matches[n] = shared_count(ngrams.counts(0), most_counts(ngrams, words.size()));
  }
  return statistics;
}

std::vector<BleuStatistics> bleu_statistics(std::span<const std::string> hypotheses,
                                            std::span<const std::vector<std::string>> references,
                                            const BleuOptions& options) {
  for (const auto& stream : references)
    if (stream.size() != hypotheses.size())
      throw std::invalid_argument(
          fmt::format("bleu: {} hypotheses, but {} references", hypotheses.size(), stream.size()));
  std::vector<BleuStatistics> statistics;
  statistics.reserve(hypotheses.size());
  std::vector<std::string_view> row(references.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    for (size_t r = 0; r < row.size(); ++r) row[r] = references[r][i];
    statistics.push_back(bleu_statistics(hypotheses[i], row, options));
  }
  return statistics;
}

BleuScore bleu_of(const BleuStatistics& statistics, const BleuOptions& options) {
  check(options);
  BleuScore bleu{.precisions = std::vector<double>(options.max_order),
                 .brevity_penalty = brevity_penalty(statistics),
                 .statistics = statistics};
  const auto matched = std::span(statistics.matches).first(options.max_order);
  if (std::ranges::all_of(matched, [](int64_t count) { return count == 0; })) return bleu;

  const double k = smooth_value(options);
  double halved = 1;
  size_t orders = options.max_order;
  for (size_t n = 0; n < options.max_order; ++n) {
    const double added = options.smoothing == BleuSmoothing::add_k && n > 0 ? k : 0;
    auto matches = static_cast<double>(statistics.matches[n]) + added;
    const auto total = static_cast<double>(statistics.totals[n]) + added;
    if (total == 0) break;
    if (options.effective_order) orders = n + 1;
    if (matches == 0 && options.smoothing == BleuSmoothing::exp) matches = halved /= 2;
    if (matches == 0 && options.smoothing == BleuSmoothing::floor) matches = k;
    bleu.precisions[n] = 100 * matches / total;
  }
  double logs = 0;
  for (size_t n = 0; n < orders; ++n) logs += std::log(bleu.precisions[n]);  // -inf for 0
  bleu.score = bleu.brevity_penalty * std::exp(logs / static_cast<double>(orders));
  return bleu;
}

BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const std::vector<std::string>> references,
                      const BleuOptions& options) {
  BleuStatistics sum;
  for (const auto& statistics : bleu_statistics(hypotheses, references, options)) sum += statistics;
  return bleu_of(sum, options);
}

std::string to_text(const BleuScore& score) {
  std::string precisions;
  for (const double precision : score.precisions)
    precisions += fmt::format("{}{:.1f}", precisions.empty() ? "" : "/", precision);
  const auto& [matches, totals, hypothesis, reference] = score.statistics;
  const double ratio =
      reference == 0 ? 0 : static_cast<double>(hypothesis) / static_cast<double>(reference);
  return fmt::format("BLEU = {:.2f} {} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})",
                     score.score, precisions, score.brevity_penalty, ratio, hypothesis, reference);
}

std::string bleu_signature(const BleuOptions& options, size_t references, std::string_view trials) {
  auto smoothing = std::string(names_of(options.smoothing)[static_cast<size_t>(options.smoothing)]);
  if (options.smoothing == BleuSmoothing::floor || options.smoothing == BleuSmoothing::add_k)
    smoothing += fmt::format("[{:.2f}]", smooth_value(options));
  return fmt::format("BLEU|nrefs:{}|{}{}case:{}|eff:{}|tok:{}|smooth:{}|version:longbow-{}",
                     references, trials, trials.empty() ? "" : "|",
                     options.lowercase ? "lc" : "mixed", options.effective_order ? "yes" : "no",
                     names_of(options.tokenizer)[static_cast<size_t>(options.tokenizer)], smoothing,
                     version());
}

}  // namespace longbow::metrics
