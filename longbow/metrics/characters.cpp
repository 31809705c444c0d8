#include "longbow/metrics/characters.h"

#include <utf8proc.h>

#include <algorithm>

#include "longbow/core/utf8.h"

namespace longbow::metrics {
namespace {

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

// Letters with case, and signs such as Ⅳ that have a form in the other case.
bool is_cased(char32_t code) {
  const auto kind = category(code);
  const auto letter = static_cast<utf8proc_int32_t>(code);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
         kind == UTF8PROC_CATEGORY_LT || utf8proc_tolower(letter) != letter ||
         utf8proc_toupper(letter) != letter;
}

// What may stand inside a word without being one of its letters.
bool is_case_ignorable(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return std::u32string_view(U"'.:\u00b7\u0387\u2018\u2019\u2024\u2027").find(code) !=
             std::u32string_view::npos;
  }
}

// Σ becomes ς at the end of a word and σ elsewhere.
bool ends_word(std::u32string_view text, size_t at) {
  auto before = at, after = at + 1;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return before > 0 && is_cased(text[before - 1]) &&
         (after == text.size() || !is_cased(text[after]));
}

std::u32string lowercase(std::u32string_view text) {
  std::u32string lower;
  lower.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == U'\u0130')
      lower += U"i\u0307";  // the only letter that becomes two
    else if (text[i] == U'\u03a3')
      lower += ends_word(text, i) ? U'\u03c2' : U'\u03c3';
    else
      lower += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(text[i])));
  }
  return lower;
}

}  // namespace

bool is_space(char32_t code) {
  if (code < 0x80)
    return code == ' ' || (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x1f);
  return code == 0x85 || category(code) == UTF8PROC_CATEGORY_ZS || code == 0x2028 || code == 0x2029;
}

bool is_punctuation(char32_t code) {
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_symbol(char32_t code) {
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_SM && kind <= UTF8PROC_CATEGORY_SO;
}

bool is_number(char32_t code) {
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

bool is_word(char32_t code) {
  const auto kind = category(code);
  return code == '_' || (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO) ||
         is_number(code);
}

bool is_ascii_punctuation(char32_t code) {
  return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') ||
         (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
}

std::u32string code_points(std::string_view text) {
  std::u32string codes;
  codes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto character = utf8_at(text, at);
    codes += character.code;
    at += character.bytes;
  }
  return codes;
}

std::string to_utf8(std::u32string_view codes) {
  std::string text;
  text.reserve(codes.size());
  for (const auto code : codes) append_utf8(text, code);
  return text;
}

std::string lowercase(std::string_view text) {
  const bool ascii =
      std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (!ascii) return to_utf8(lowercase(code_points(text)));
  std::string lower(text);
  for (auto& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto character = utf8_at(text, at);
    if (is_space(character.code)) {
      if (at > begin) words.push_back(text.substr(begin, at - begin));
      begin = at + character.bytes;
    }
    at += character.bytes;
  }
  if (text.size() > begin) words.push_back(text.substr(begin));
  return words;
}

std::string_view trimmed_right(std::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const auto character = utf8_at(text, at);
    at += character.bytes;
    if (!is_space(character.code)) end = at;
  }
  return text.substr(0, end);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty()) {
    const auto character = utf8_at(text, 0);
    if (!is_space(character.code)) break;
    text.remove_prefix(character.bytes);
  }
  return trimmed_right(text);
}

std::vector<std::vector<uint32_t>> number_words(
    std::span<const std::vector<std::string_view>> lists) {
  std::vector<std::string_view> known;
  for (const auto& list : lists) known.insert(known.end(), list.begin(), list.end());
  std::ranges::sort(known);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::vector<std::vector<uint32_t>> numbers(lists.size());
  for (size_t i = 0; i < lists.size(); ++i) {
    numbers[i].reserve(lists[i].size());
    for (const auto word : lists[i])
      numbers[i].push_back(
          static_cast<uint32_t>(std::ranges::lower_bound(known, word) - known.begin()));
  }
  return numbers;
}

}  // namespace longbow::metrics
