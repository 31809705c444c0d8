#include "longbow/corpus/readers/heading.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>

#include "longbow/core/error.h"
#include "longbow/core/option_error.h"
#include "longbow/corpus/readers/number.h"

namespace longbow::corpus {
namespace {

// A pattern that would backtrack for longer than this on one line is refused.
constexpr uint32_t kMostSteps = 1'000'000;

std::string message_of(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Heading::Code {
  ~Code() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_code_free(pattern);
  }
  pcre2_code* pattern = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_match_data* match = nullptr;
};

Heading::Heading(const std::string& pattern) : code_(std::make_unique<Code>()) {
  int error = 0;
  size_t offset = 0;
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED;
  require_option(!pattern.empty(), "heading", "is empty",
                 "unit: section needs a regular expression for its headings");
  code_->pattern = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 kOptions, &error, &offset, nullptr);
  if (!code_->pattern)
    throw OptionError("heading", "is not a regular expression: " + message_of(error),
                      "see position " + std::to_string(offset + 1) + " of " + quote(pattern));
  pcre2_jit_compile(code_->pattern, PCRE2_JIT_COMPLETE);  // where it is supported
  code_->context = pcre2_match_context_create(nullptr);
  code_->match = pcre2_match_data_create_from_pattern(code_->pattern, nullptr);
  if (!code_->context || !code_->match) throw std::bad_alloc();
  pcre2_set_match_limit(code_->context, kMostSteps);
}

Heading::~Heading() = default;

bool Heading::matches(std::string_view line, std::string& title) const {
  const int groups = pcre2_match(code_->pattern, reinterpret_cast<PCRE2_SPTR>(line.data()),
                                 line.size(), 0, PCRE2_NO_UTF_CHECK, code_->match, code_->context);
  if (groups == PCRE2_ERROR_NOMATCH) return false;
  if (groups < 0)
    throw OptionError("heading", "cannot be matched: " + message_of(groups),
                      "use a simpler expression");
  const auto* ends = pcre2_get_ovector_pointer(code_->match);
  const bool has_group = groups > 1 && ends[2] != PCRE2_UNSET;
  title = has_group ? line.substr(ends[2], ends[3] - ends[2]) : stripped(line);
  return true;
}

}  // namespace longbow::corpus
