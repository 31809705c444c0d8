#include "longbow/text/unicode/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "longbow/core/error.h"
#include "longbow/text/unicode/oniguruma.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

constexpr size_t kMostPatternBytes = 10'000;
constexpr uint32_t kMostSteps = 10'000'000;  // of backtracking, for one match

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
  // Whatever PCRE2 was built for, a line ends with LF alone.
  const auto text = "(*LF)" + pcre2_of_oniguruma(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // ^ and $ stand at the ends of lines. The text has been checked, so PCRE2 need not check it for
  // every match.
  const uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C;
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

std::string Regex::escaped(std::string_view text) {
  constexpr std::string_view kOperators = "\\.[]{}()*+?^$|";
  std::string pattern;
  for (const char c : text) {
    if (kOperators.find(c) != kOperators.npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

Regex Regex::literal(std::string_view text) {
  return Regex(escaped(text));
}

void Regex::each_match(std::string_view text,
                       const std::function<void(size_t, size_t)>& take) const {
  if (text.empty()) return;
  const MatchData data(pcre2_match_data_create_from_pattern(program_->code.get(), nullptr));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t from = 0, last_end = static_cast<size_t>(-1);
  while (from <= text.size()) {
    const auto match = [&](uint32_t options) {
      return pcre2_match(program_->code.get(), subject, text.size(), from,
                         PCRE2_NO_UTF_CHECK | options, data.get(), program_->context.get());
    };
    int count = match(0);
    // Compiled code has a stack of 32 KiB, which a group that is repeated over a long word uses up.
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) count = match(PCRE2_NO_JIT);
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
