#include "longbow/text/unicode/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "longbow/core/error.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

constexpr size_t kMostPatternBytes = 10'000;
constexpr uint32_t kMostSteps = 10'000'000;  // of backtracking, for one match

// What stands inside a class for Oniguruma's \w and \s. PCRE2's leave out marks and letters in
// circles, take all numbers, and take U+180E for a space.
constexpr std::string_view kWord =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}"
    "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
constexpr std::string_view kSpace =
    "\\x{09}-\\x{0d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";

// The pattern with these two classes spelled out. Their complements within brackets stay PCRE2's.
std::string translated(const std::string& pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      if (c == '[' && !in_class) {
        in_class = true;
        out += c;
        if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
        if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];
        continue;
      }
      if (c == ']') in_class = false;
      out += c;
      continue;
    }
    const char name = pattern[++i];
    const auto set = name == 'w' || name == 'W' ? kWord : kSpace;
    const bool is_plain = name == 'w' || name == 's', is_other = name == 'W' || name == 'S';
    if (is_plain && in_class)
      out += set;
    else if (is_plain || (is_other && !in_class))
      out += fmt::format("[{}{}]", is_plain ? "" : "^", set);
    else
      (out += '\\') += name;
  }
  return out;
}

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

template <class T, void (*Free)(T*)>
struct Freed {
  void operator()(T* pointer) const { Free(pointer); }
};
template <class T, void (*Free)(T*)>
using Owned = std::unique_ptr<T, Freed<T, Free>>;
using Code = Owned<pcre2_code, pcre2_code_free>;
using MatchData = Owned<pcre2_match_data, pcre2_match_data_free>;
using MatchContext = Owned<pcre2_match_context, pcre2_match_context_free>;

}  // namespace

struct Regex::Program {
  Code code;
  MatchContext context{pcre2_match_context_create(nullptr)};
};

Regex::Regex(const std::string& pattern) {
  if (pattern.size() > kMostPatternBytes)
    throw UserError(fmt::format("a pattern of {} bytes is too long", pattern.size()),
                    fmt::format("at most {}", kMostPatternBytes));
  const auto text = translated(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // The text has been checked, so PCRE2 need not check it for every match.
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C;
  auto program = std::make_shared<Program>();
  program->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options,
                                    &error, &offset, nullptr));
  if (!program->code)
    throw UserError(
        fmt::format("the pattern {} cannot be used: {}", quote(pattern), message_of(error)));
  pcre2_jit_compile(program->code.get(), PCRE2_JIT_COMPLETE);
  pcre2_set_match_limit(program->context.get(), kMostSteps);
  pcre2_set_heap_limit(program->context.get(), 20'000);  // kilobytes
  program_ = std::move(program);
}

Regex Regex::literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) || (c & 0x80) || c == ' ' ||
                          c == '\n' || c == '\t';
    if (!is_plain) pattern += '\\';
    pattern += c;
  }
  return Regex(pattern);
}

void Regex::each_match(std::string_view text,
                       const std::function<void(size_t, size_t)>& take) const {
  if (text.empty()) return;
  const MatchData data(pcre2_match_data_create_from_pattern(program_->code.get(), nullptr));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t from = 0, last_end = static_cast<size_t>(-1);
  while (from <= text.size()) {
    const int count = pcre2_match(program_->code.get(), subject, text.size(), from,
                                  PCRE2_NO_UTF_CHECK, data.get(), program_->context.get());
    if (count == PCRE2_ERROR_NOMATCH) return;
    if (count < 0) throw UserError("a pattern failed on a text: " + message_of(count));
    const auto* bounds = pcre2_get_ovector_pointer(data.get());
    const size_t begin = bounds[0], end = bounds[1];
    const bool is_empty = end <= begin;  // \K in a look-ahead may put the begin behind the end
    if (!is_empty || begin != last_end) take(begin, std::max(begin, end));
    last_end = std::max(begin, end);
    if (!is_empty)
      from = end;
    else if (last_end >= text.size())
      return;
    else
      from = last_end + unicode::bytes_of(unicode::byte_at(text, last_end));
  }
}

}  // namespace longbow
