#include "longbow/metrics/chrf.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "longbow/core/version.h"
#include "longbow/metrics/characters.h"
#include "longbow/metrics/ngrams.h"

namespace longbow::metrics {
namespace {

void check(const ChrfOptions& options) {
  const auto orders = options.char_order + options.word_order;
  if (orders < 1 || orders > kMostChrfOrders)
    throw std::invalid_argument(
        fmt::format("chrf: char_order and word_order add up to {}, it may be 1 to {}", orders,
                    kMostChrfOrders));
}

std::vector<uint32_t> characters_of(std::string_view text, const ChrfOptions& options) {
  std::vector<uint32_t> characters;
  characters.reserve(text.size());
  for (const auto code : code_points(text))
    if (options.whitespace || !is_space(code)) characters.push_back(code);
  return characters;
}

// One punctuation mark is split from a word: the last one, or else the first.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  const auto is_mark = [](char c) { return is_ascii_punctuation(static_cast<unsigned char>(c)); };
  for (const auto word : split(text)) {
    size_t first = 0;
    if (word.size() > 1 && is_mark(word.back()))
      first = word.size() - 1;
    else if (word.size() > 1 && is_mark(word.front()))
      first = 1;
    if (first > 0) words.push_back(word.substr(0, first));
    words.push_back(word.substr(first));
  }
  return words;
}

// Appends, for orders 1 to `most`, the counts of sequence 0 against each of the others.
void compare(std::vector<std::vector<uint32_t>> sequences, size_t first, size_t most,
             std::span<ChrfStatistics> out) {
  Ngrams ngrams(std::move(sequences));
  for (size_t n = 0; n < most; ++n) {
    if (n > 0) ngrams.extend();
    const auto counts = ngrams.counts(0);
    for (size_t r = 0; r < out.size(); ++r) {
      const auto reference = static_cast<int64_t>(ngrams.of(r + 1).size());
      // A reference that is too short for an order says nothing about the hypothesis.
      const auto hypothesis = reference == 0 ? 0 : static_cast<int64_t>(ngrams.of(0).size());
      out[r].orders[first + n] = {hypothesis, reference,
                                  shared_count(counts, ngrams.counts(r + 1))};
    }
  }
}

}  // namespace

ChrfStatistics& ChrfStatistics::operator+=(const ChrfStatistics& other) {
  for (size_t i = 0; i < orders.size(); ++i) {
    orders[i].hypothesis += other.orders[i].hypothesis;
    orders[i].reference += other.orders[i].reference;
    orders[i].matches += other.orders[i].matches;
  }
  return *this;
}

ChrfStatistics chrf_statistics(std::string_view hypothesis,
                               std::span<const std::string_view> references,
                               const ChrfOptions& options) {
  check(options);
  if (references.empty()) throw std::invalid_argument("chrf: a hypothesis without reference");
  std::vector<std::string> texts = {std::string(hypothesis)};
  texts.insert(texts.end(), references.begin(), references.end());
  if (options.lowercase)
    for (auto& text : texts) text = lowercase(text);

  std::vector<ChrfStatistics> all(references.size());
  if (options.char_order > 0) {
    std::vector<std::vector<uint32_t>> characters;
    for (const auto& text : texts) characters.push_back(characters_of(text, options));
    compare(std::move(characters), 0, options.char_order, all);
  }
  if (options.word_order > 0) {
    std::vector<std::vector<std::string_view>> words;
    for (const auto& text : texts) words.push_back(words_of(text));
    compare(number_words(words), options.char_order, options.word_order, all);
  }
  size_t best = 0;
  for (size_t r = 1; r < all.size(); ++r)
    if (chrf_of(all[r], options) > chrf_of(all[best], options)) best = r;
  return all[best];
}

std::vector<ChrfStatistics> chrf_statistics(std::span<const std::string> hypotheses,
                                            std::span<const std::vector<std::string>> references,
                                            const ChrfOptions& options) {
  for (const auto& stream : references)
    if (stream.size() != hypotheses.size())
      throw std::invalid_argument(
          fmt::format("chrf: {} hypotheses, but {} references", hypotheses.size(), stream.size()));
  std::vector<ChrfStatistics> statistics;
  statistics.reserve(hypotheses.size());
  std::vector<std::string_view> row(references.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    for (size_t r = 0; r < row.size(); ++r) row[r] = references[r][i];
    statistics.push_back(chrf_statistics(hypotheses[i], row, options));
  }
  return statistics;
}

double chrf_of(const ChrfStatistics& statistics, const ChrfOptions& options) {
  check(options);
  constexpr double kTiny = 1e-16;
  const auto factor = static_cast<double>(options.beta * options.beta);
  const auto f_score = [&](double precision, double recall, double otherwise) {
    const double denominator = factor * precision + recall;
    return denominator > 0 ? (1 + factor) * precision * recall / denominator : otherwise;
  };
  const auto orders = options.char_order + options.word_order;
  double scores = 0, precisions = 0, recalls = 0, effective = 0;
  for (const auto& order : std::span(statistics.orders).first(orders)) {
    const auto matches = static_cast<double>(order.matches);
    const double precision =
        order.hypothesis > 0 ? matches / static_cast<double>(order.hypothesis) : kTiny;
    const double recall =
        order.reference > 0 ? matches / static_cast<double>(order.reference) : kTiny;
    scores += f_score(precision, recall, kTiny);
    if (order.hypothesis == 0 || order.reference == 0) continue;
    precisions += precision;
    recalls += recall;
    ++effective;
  }
  if (options.eps_smoothing) return 100 * scores / static_cast<double>(orders);
  if (effective == 0) return 0;
  return 100 * f_score(precisions / effective, recalls / effective, 0);
}

double corpus_chrf(std::span<const std::string> hypotheses,
                   std::span<const std::vector<std::string>> references,
                   const ChrfOptions& options) {
  ChrfStatistics sum;
  for (const auto& statistics : chrf_statistics(hypotheses, references, options)) sum += statistics;
  return chrf_of(sum, options);
}

std::string chrf_name(const ChrfOptions& options) {
  return fmt::format("chrF{}{}", options.beta, std::string(options.word_order, '+'));
}

std::string chrf_signature(const ChrfOptions& options, size_t references, std::string_view trials) {
  return fmt::format("{}|nrefs:{}|{}{}case:{}|eff:{}|nc:{}|nw:{}|space:{}|version:longbow-{}",
                     chrf_name(options), references, trials, trials.empty() ? "" : "|",
                     options.lowercase ? "lc" : "mixed", options.eps_smoothing ? "no" : "yes",
                     options.char_order, options.word_order, options.whitespace ? "yes" : "no",
                     version());
}

}  // namespace longbow::metrics
