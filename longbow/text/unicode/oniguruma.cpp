#include "longbow/text/unicode/oniguruma.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "longbow/core/error.h"
#include "longbow/core/utf8.h"

namespace longbow {
namespace {

constexpr size_t kMostLevels = 100;  // of classes in each other

// What stands inside a class for Oniguruma's \w and \s. PCRE2's leave out marks and letters in
// circles, take all numbers, and take U+180E for a space.
constexpr std::string_view kWord =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}"
    "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
constexpr std::string_view kSpace =
    "\\x{09}-\\x{0d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";
constexpr std::string_view kHexDigit = "0-9A-Fa-f";

bool is(int (*of)(int), char c) {
  return of(static_cast<unsigned char>(c)) != 0;
}

// The items of the class that a letter after a backslash names; none for other letters. A capital
// names the complement.
std::string_view named_class(char letter) {
  switch (std::tolower(static_cast<unsigned char>(letter))) {
    case 'w':
      return kWord;
    case 's':
      return kSpace;
    case 'h':
      return kHexDigit;
    default:
      return {};
  }
}

// PCRE2's \p{Han} takes what other scripts use as well, such as the ideographic full stop, and its
// \p{sc:Han} does not. Versions below 10.40 know the first form alone, and mean the second.
bool is_script(std::string_view name) {
  const auto pattern = fmt::format("\\p{{sc:{}}}", name);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                             PCRE2_UTF, &error, &offset, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

// A class in brackets, or one side of its &&.
struct CharacterClass {
  std::string items;                // of a plain class, without its brackets
  std::vector<std::string> others;  // expressions of one character that such items cannot say
  bool may_begin_range = false;     // whether the last item is a single character

  std::string str() const {
    auto parts = others;
    if (!items.empty()) parts.push_back("[" + items + "]");
    if (parts.empty()) return "(?!)";  // no character is in it
    return parts.size() == 1 ? parts[0] : fmt::format("(?:{})", fmt::join(parts, "|"));
  }
  void add_items(std::string_view more) {
    items += more;
    may_begin_range = false;
  }
  void add_other(std::string expression) {
    others.push_back(std::move(expression));
    may_begin_range = false;
  }
  void add_named(std::string_view more, bool is_complement) {
    if (is_complement)
      add_other(fmt::format("[^{}]", more));
    else
      add_items(more);
  }
};

class Translator {
 public:
  explicit Translator(const std::string& pattern) : pattern_(pattern), text_(pattern) {}

  std::string translated() {
    std::string out;
    while (at_ < text_.size()) {
      if (text_[at_] == '[')
        out += character_class(0).str();
      else if (next_is("(?"))
        out += group();
      else if (text_[at_] == '{')
        out += interval();
      else if (const auto named = next_named_class(); !named.empty())
        out += fmt::format("[{}{}]", is(std::isupper, text_[at_ - 1]) ? "^" : "", named);
      else
        out += text_[at_] == '\\' ? escape() : std::string(1, text_[at_++]);
    }
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(fmt::format("the pattern {} cannot be used: {}", quote(pattern_), what));
  }
  bool next_is(std::string_view wanted) const { return text_.substr(at_).starts_with(wanted); }
  bool take(std::string_view wanted) {
    if (!next_is(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  std::string_view take_to(size_t end) {
    const auto taken = text_.substr(at_, end - at_);
    at_ += taken.size();
    return taken;
  }

  // Of \w and its like, which it takes.
  std::string_view next_named_class() {
    const bool is_escape = next_is("\\") && at_ + 1 < text_.size();
    const auto named = is_escape ? named_class(text_[at_ + 1]) : std::string_view();
    if (!named.empty()) at_ += 2;
    return named;
  }

  // Any other backslash with what belongs to it.
  std::string escape() {
    const char letter = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    const auto braced = text_.substr(std::min(at_ + 2, text_.size()));
    const size_t close = braced.starts_with('{') ? text_.find('}', at_) : text_.npos;
    if ((letter == 'p' || letter == 'P') && close != text_.npos) return property(close);
    if (letter == 'x' && close != text_.npos) return std::string(take_to(close + 1));
    if (letter == 'u' && is_hex(braced.substr(0, 4)))
      return fmt::format("\\x{{{}}}", take_to(at_ + 6).substr(2));
    if (letter == 'v') return take_to(at_ + 2), "\\x0b";
    if (letter == 'V' || letter == 'Q' || letter == 'E')
      return take_to(at_ + 2), std::string(1, letter);
    return std::string(take_to(at_ + 1 + (letter == '\0' ? 0 : utf8_at(text_, at_ + 1).bytes)));
  }
  static bool is_hex(std::string_view digits) {
    return digits.size() == 4 && digits.find_first_not_of("0123456789abcdefABCDEF") == digits.npos;
  }
  std::string property(size_t close) {
    const auto letter = take_to(at_ + 3);  // \p{
    const bool is_complement = take("^");
    const auto name = take_to(close);
    take("}");
    return fmt::format("{}{}{}{}}}", letter, is_complement ? "^" : "", is_script(name) ? "sc:" : "",
                       name);
  }

  // The beginning of a group. (?m) lets a full stop match line breaks, which is (?s) to PCRE2.
  std::string group() {
    size_t end = at_ + 2;
    while (end < text_.size() && (is(std::isalpha, text_[end]) || text_[end] == '-')) ++end;
    const bool has_options = end < text_.size() && (text_[end] == ')' || text_[end] == ':');
    std::string begin(take_to(has_options ? end : at_ + 2));
    for (char& option : begin)
      if (option == 'm') option = 's';
    return begin;
  }

  // {n}, {n,}, {n,m} or {,m}; other braces are plain text.
  std::string interval() {
    size_t end = at_ + 1;
    const auto number = [&] {
      const size_t from = end;
      while (end < text_.size() && is(std::isdigit, text_[end])) ++end;
      return text_.substr(from, end - from);
    };
    const auto least = number();
    const bool has_comma = end < text_.size() && text_[end] == ',';
    if (has_comma) ++end;
    const auto most = has_comma ? number() : std::string_view();
    const bool is_interval =
        end < text_.size() && text_[end] == '}' && !(least.empty() && most.empty());
    if (!is_interval) return take("{"), "\\{";
    at_ = end + 1;
    if (next_is("+")) fail("a + after an interval is not supported");
    if (next_is("?") && !has_comma) fail("a ? after an interval of one number is not supported");
    return fmt::format("{{{}{}{}}}", least.empty() ? "0" : least, has_comma ? "," : "", most);
  }

  // [a && b] is a that b is ahead of; a complement is any character that the class is not ahead of.
  CharacterClass character_class(size_t level) {
    if (level >= kMostLevels) fail("its classes are nested too deep");
    take("[");
    const bool is_negated = take("^");
    std::vector<CharacterClass> sides = {side(level, true)};
    while (take("&&")) sides.push_back(side(level, false));
    if (!take("]")) fail("missing terminating ] for character class");
    if (sides.size() == 1 && sides[0].others.empty()) {
      if (!is_negated) return sides[0];
      return {.items = {}, .others = {fmt::format("[^{}]", sides[0].items)}};
    }
    auto all = sides[0].str();
    for (size_t i = 1; i < sides.size(); ++i) all = fmt::format("(?={}){}", sides[i].str(), all);
    if (is_negated) all = fmt::format("(?!{})(?s:.)", all);
    return {.items = {}, .others = {"(?:" + all + ")"}};
  }

  CharacterClass side(size_t level, bool is_first) {
    CharacterClass out;
    if (is_first && next_is("]")) add_character(out);
    while (at_ < text_.size() && !next_is("]") && !next_is("&&")) {
      if (next_is("[:") && add_posix_class(out)) continue;
      if (next_is("["))
        add_class(out, character_class(level + 1));
      else if (const auto named = next_named_class(); !named.empty())
        out.add_named(named, is(std::isupper, text_[at_ - 1]));
      else if (is_property())
        out.add_items(escape());
      else
        add_character(out);
    }
    return out;
  }

  static void add_class(CharacterClass& out, const CharacterClass& inner) {
    out.add_items(inner.items);
    for (const auto& other : inner.others) out.add_other(other);
  }

  bool is_property() const {
    return next_is("\\p") || next_is("\\P") || next_is("\\d") || next_is("\\D");
  }
  // Whether a single character comes next, so that a range may end with it.
  bool is_character() const {
    if (at_ >= text_.size() || next_is("]") || next_is("&&") || next_is("[")) return false;
    const bool is_named =
        next_is("\\") && at_ + 1 < text_.size() && !named_class(text_[at_ + 1]).empty();
    return !is_named && !is_property();
  }

  // A character, or the end of a range that began with the one before.
  void add_character(CharacterClass& out) {
    if (next_is("-") && out.may_begin_range) {
      ++at_;
      const bool is_range = is_character();
      out.items += is_range ? "-" + character() : "\\-";
      out.may_begin_range = !is_range;
      return;
    }
    out.items += character();
    out.may_begin_range = true;
  }
  std::string character() {
    if (next_is("\\")) return escape();
    const std::string taken(take_to(at_ + utf8_at(text_, at_).bytes));
    return is(std::ispunct, taken[0]) ? "\\" + taken : taken;
  }

  // [:name:] or [:^name:] within a class.
  bool add_posix_class(CharacterClass& out) {
    const size_t name_at = at_ + (next_is("[:^") ? 3 : 2);
    size_t end = name_at;
    while (end < text_.size() && is(std::isalpha, text_[end])) ++end;
    if (!text_.substr(end).starts_with(":]")) return false;
    const auto name = text_.substr(name_at, end - name_at);
    const auto whole = take_to(end + 2);
    if (name == "word" || name == "space")
      out.add_named(name == "word" ? kWord : kSpace, whole[2] == '^');
    else
      out.add_items(whole);
    return true;
  }

  const std::string& pattern_;
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string pcre2_of_oniguruma(const std::string& pattern) {
  return Translator(pattern).translated();
}

}  // namespace longbow
