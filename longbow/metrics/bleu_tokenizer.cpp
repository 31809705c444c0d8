#include "longbow/metrics/bleu_tokenizer.h"

#include <algorithm>
#include <utility>

#include "longbow/metrics/characters.h"

namespace longbow::metrics {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_point(char c) {
  return c == '.' || c == ',';
}
// ASCII punctuation but for ' - . and , which may be part of a word or a number.
bool stands_alone(char c) {
  return c == ' ' || (is_ascii_punctuation(static_cast<unsigned char>(c)) && !is_point(c) &&
                      c != '\'' && c != '-');
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Text in which neighbours (first, second) that `matches` accepts are written by `write`. A
// character that was written is not looked at again, as with a regular expression's substitution.
template <class Text, class Matches, class Write>
Text rewrite_pairs(const Text& text, const Matches& matches, const Write& write) {
  Text out;
  out.reserve(text.size() + text.size() / 2);
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && matches(text[i], text[i + 1])) {
      write(out, text[i], text[i + 1]);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

template <class Text>
void split_second(Text& out, typename Text::value_type first, typename Text::value_type second) {
  out += first;
  out += ' ';
  out += second;
  out += ' ';
}

template <class Text>
void split_first(Text& out, typename Text::value_type first, typename Text::value_type second) {
  out += ' ';
  out += first;
  out += ' ';
  out += second;
}

template <class Text, class Matches>
Text set_apart(const Text& text, const Matches& matches) {
  Text out;
  out.reserve(text.size() + text.size() / 2);
  for (const auto c : text) {
    const bool apart = matches(c);
    if (apart) out += ' ';
    out += c;
    if (apart) out += ' ';
  }
  return out;
}

std::string with_single_blanks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const auto word : split(text)) {
    if (!out.empty()) out += ' ';
    out += word;
  }
  return out;
}

// The rules look at ASCII only, so that bytes will do.
std::string split_western(const std::string& text) {
  auto line = set_apart(text, stands_alone);
  line = rewrite_pairs(
      line, [](char first, char second) { return !is_digit(first) && is_point(second); },
      split_second<std::string>);
  line = rewrite_pairs(
      line, [](char first, char second) { return is_point(first) && !is_digit(second); },
      split_first<std::string>);
  line = rewrite_pairs(
      line, [](char first, char second) { return is_digit(first) && second == '-'; },
      split_second<std::string>);
  return with_single_blanks(line);
}

std::string tokenize_13a(std::string_view text) {
  std::string line(text);
  replace_all(line, "<skipped>", "");
  replace_all(line, "-\n", "");
  replace_all(line, "\n", " ");
  for (const auto& [escape, meaning] :
       {std::pair("&quot;", "\""), {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}})
    replace_all(line, escape, meaning);
  return split_western(" " + line + " ");
}

std::string tokenize_intl(std::string_view text) {
  auto line = code_points(text);
  line = rewrite_pairs(
      line,
      [](char32_t first, char32_t second) { return !is_number(first) && is_punctuation(second); },
      split_second<std::u32string>);
  line = rewrite_pairs(
      line,
      [](char32_t first, char32_t second) { return is_punctuation(first) && !is_number(second); },
      split_first<std::u32string>);
  return with_single_blanks(to_utf8(set_apart(line, is_symbol)));
}

std::string tokenize_characters(std::string_view text) {
  std::u32string out;
  for (const auto code : code_points(text)) {
    if (!out.empty()) out += U' ';
    out += code;
  }
  return to_utf8(out);
}

// sacreBLEU means U+20000 to U+2A6D6, but Python reads only four of the five digits: its range is
// U+2001 to U+2A6D, which has typographic quotes and no ideographs. Scores agree only if this one
// does.
bool is_chinese(char32_t code) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x2001, 0x2a6d}, {0x2e80, 0x2fdf}, {0x2ff0, 0x303f}, {0x3100, 0x312f}, {0x31a0, 0x31bf},
      {0x31c0, 0x31ef}, {0x3200, 0x4db5}, {0x4e00, 0x9fbb}, {0xf900, 0xfa2d}, {0xfa30, 0xfa6a},
      {0xfa70, 0xfad9}, {0xfe10, 0xfe1f}, {0xfe30, 0xfe4f}, {0xff00, 0xffef}};
  return std::ranges::any_of(
      kRanges, [&](const auto& range) { return code >= range.first && code <= range.second; });
}

std::string tokenize_chinese(std::string_view text) {
  return split_western(to_utf8(set_apart(code_points(trimmed(text)), is_chinese)));
}

}  // namespace

std::string tokenize(std::string_view text, BleuTokenizer tokenizer) {
  switch (tokenizer) {
    case BleuTokenizer::none:
      return std::string(text);
    case BleuTokenizer::v13a:
      return tokenize_13a(text);
    case BleuTokenizer::intl:
      return tokenize_intl(text);
    case BleuTokenizer::character:
      return tokenize_characters(text);
    case BleuTokenizer::chinese:
      return tokenize_chinese(text);
  }
  return {};
}

bool look_tokenized(std::span<const std::string> lines) {
  size_t written = 0, apart = 0;
  for (const auto& line : lines) {
    for (const auto* mark : {" @-@ ", "&apos;", "&#91;", "&#93;"})
      if (line.find(mark) != std::string::npos) return true;
    const auto text = trimmed_right(line);
    if (text.empty()) continue;
    ++written;
    apart += text.ends_with(" .");
  }
  return 2 * apart > written;
}

}  // namespace longbow::metrics
