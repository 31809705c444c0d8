#include "longbow/metrics/answers.h"

#include <algorithm>
#include <vector>

#include "longbow/metrics/characters.h"
#include "longbow/metrics/ngrams.h"

namespace longbow::metrics {
namespace {

bool is_korean_mark(char32_t code) {
  return std::u32string_view(U"'\"<>()《》〈〉‘’").find(code) != std::u32string_view::npos;
}

// A word is a run of letters and numbers: combining marks end one, as they do for Python.
std::u32string without_articles(const std::u32string& text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    auto end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const auto word = std::u32string_view(text).substr(at, end - at);
    if (word.empty())
      out += text[end++];
    else if (word == U"a" || word == U"an" || word == U"the")
      out += U' ';
    else
      out += word;
    at = end;
  }
  return out;
}

// The numbers of shared and of all words, or characters.
struct Overlap {
  int64_t shared = 0, prediction = 0, reference = 0;
};

std::vector<uint32_t> characters_of(std::string_view text) {
  std::vector<uint32_t> characters;
  for (const auto code : code_points(text))
    if (!is_space(code)) characters.push_back(code);
  return characters;
}

Overlap overlap_of(std::string_view prediction, std::string_view reference, AnswerRules rules) {
  const std::vector<std::vector<std::string_view>> words = {split(prediction), split(reference)};
  const Ngrams units(rules == AnswerRules::korquad
                         ? std::vector{characters_of(prediction), characters_of(reference)}
                         : number_words(words));
  return {shared_count(units.counts(0), units.counts(1)), static_cast<int64_t>(units.of(0).size()),
          static_cast<int64_t>(units.of(1).size())};
}

double f1_of(const Overlap& overlap, AnswerRules rules) {
  const bool empty = overlap.prediction == 0 || overlap.reference == 0;
  if (rules == AnswerRules::squad2 && empty) return overlap.prediction == overlap.reference;
  if (overlap.shared == 0) return 0;
  const auto shared = static_cast<double>(overlap.shared);
  const double precision = shared / static_cast<double>(overlap.prediction);
  const double recall = shared / static_cast<double>(overlap.reference);
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

std::string normalize_answer(std::string_view text, AnswerRules rules) {
  auto codes = code_points(text);
  if (rules == AnswerRules::korquad) std::ranges::replace_if(codes, is_korean_mark, U' ');
  codes = code_points(lowercase(to_utf8(codes)));
  std::erase_if(codes, is_ascii_punctuation);
  if (rules != AnswerRules::korquad) codes = without_articles(codes);
  const auto line = to_utf8(codes);
  std::string normal;
  for (const auto word : split(line)) {
    if (!normal.empty()) normal += ' ';
    normal += word;
  }
  return normal;
}

AnswerScore score_answer(std::string_view prediction, std::span<const std::string> references,
                         AnswerRules rules) {
  const auto answer = normalize_answer(prediction, rules);
  std::vector<std::string> wanted;
  for (const auto& reference : references) wanted.push_back(normalize_answer(reference, rules));
  if (rules == AnswerRules::squad2) {
    // The script drops references without words; none left means that there is no answer.
    const bool any = std::ranges::any_of(wanted, [](const auto& text) { return !text.empty(); });
    if (any) std::erase(wanted, "");
    if (!any) wanted = {""};
  }
  AnswerScore best;
  for (const auto& reference : wanted) {
    best.exact = std::max<double>(best.exact, answer == reference);
    best.f1 = std::max(best.f1, f1_of(overlap_of(answer, reference, rules), rules));
  }
  return best;
}

void AnswerSums::add(const AnswerScore& score) {
  exact += score.exact;
  f1 += score.f1;
  ++questions;
}

AnswerSums& AnswerSums::operator+=(const AnswerSums& other) {
  exact += other.exact;
  f1 += other.f1;
  questions += other.questions;
  return *this;
}

AnswerScore AnswerSums::mean() const {
  const auto count = static_cast<double>(questions);
  return {exact / count, f1 / count};
}

}  // namespace longbow::metrics
