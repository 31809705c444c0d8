#pragma once
// Regular expressions of tokenizer.json, which are Oniguruma's, run by PCRE2.
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace longbow {

class Regex {
 public:
  // UserError without a place when the pattern cannot be compiled.
  explicit Regex(const std::string& pattern);
  static Regex literal(std::string_view text);        // matches this text
  static std::string escaped(std::string_view text);  // its pattern, in any regular expression

  // Calls with the bounds of each match, left to right without overlap; an empty match counts, but
  // not where the one before it ended. An empty text has none. A pattern that takes too many steps
  // is a UserError.
  void each_match(std::string_view text, const std::function<void(size_t, size_t)>& take) const;

 private:
  struct Program;
  std::shared_ptr<const Program> program_;
};

}  // namespace longbow
