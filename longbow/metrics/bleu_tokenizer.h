#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>

namespace longbow::metrics {

// How BLEU splits a text into words. The rules are sacreBLEU's, and give its scores.
enum class BleuTokenizer {
  none,       // at white space only
  v13a,       // mteval-v13a: ASCII punctuation apart, but not within numbers
  intl,       // mteval-v14: Unicode punctuation and symbols apart
  character,  // every character
  chinese,    // every Chinese character, the rest as 13a
};
constexpr std::array<std::string_view, 5> names_of(BleuTokenizer) {
  return {"none", "13a", "intl", "char", "zh"};
}

// The words, with white space between them.
std::string tokenize(std::string_view text, BleuTokenizer tokenizer);

// Whether lines seem to be tokens of another tool, which BLEU must not be computed on: they contain
// Moses' marks, or most of them end in a blank and a full stop.
bool look_tokenized(std::span<const std::string> lines);

}  // namespace longbow::metrics
