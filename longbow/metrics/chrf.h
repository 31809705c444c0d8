#pragma once
// chrF (Popović, 2015) and chrF++ (2017) as sacreBLEU 2 computes them: an F score over character
// n-grams, with word_order > 0 over word n-grams too.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longbow::metrics {

constexpr size_t kMostChrfOrders = 12;  // of characters and words together

struct ChrfOptions {
  size_t char_order = 6;
  size_t word_order = 0;  // 2: chrF++
  int64_t beta = 2;       // recall counts beta times as much as precision
  bool lowercase = false;
  bool whitespace = false;     // keep white space in character n-grams
  bool eps_smoothing = false;  // average F over all orders, as chrF++.py does, instead of precision
                               // and recall over the orders that both sides have
};

// What a sentence contributes, with the reference that gives it the best score. The statistics of a
// corpus are the sum over its sentences.
struct ChrfStatistics {
  struct Order {
    int64_t hypothesis = 0, reference = 0, matches = 0;  // n-grams
  };
  std::array<Order, kMostChrfOrders> orders{};  // characters first, then words

  ChrfStatistics& operator+=(const ChrfStatistics& other);
};

ChrfStatistics chrf_statistics(std::string_view hypothesis,
                               std::span<const std::string_view> references,
                               const ChrfOptions& options = {});
// One for each hypothesis; references[r][i] is reference r of hypothesis i.
std::vector<ChrfStatistics> chrf_statistics(std::span<const std::string> hypotheses,
                                            std::span<const std::vector<std::string>> references,
                                            const ChrfOptions& options = {});

double chrf_of(const ChrfStatistics& statistics, const ChrfOptions& options = {});  // 0 to 100
double corpus_chrf(std::span<const std::string> hypotheses,
                   std::span<const std::vector<std::string>> references,
                   const ChrfOptions& options = {});

std::string chrf_name(const ChrfOptions& options);  // "chrF2", "chrF2++"
// "chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:longbow-0.1.0"; `trials` as in
// bleu.h.
std::string chrf_signature(const ChrfOptions& options, size_t references,
                           std::string_view trials = "");

}  // namespace longbow::metrics
