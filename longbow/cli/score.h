#pragma once
// What the subcommands of `score` share: aligned files of lines, numbers in JSON, flags that
// choose.
#include <string>
#include <vector>

#include "longbow/core/config.h"
#include "longbow/core/fields.h"

namespace longbow::cli {

struct LineFile {
  std::string name;  // "stdin" for -
  std::vector<std::string> lines;
};
// Each is UTF-8 and has lines, and all have the same number of them. - is stdin, once.
std::vector<LineFile> read_aligned(const std::vector<std::string>& paths);

// null for what is not a number, as JSON has none.
Node number_or_null(double value);
Node numbers(const std::vector<double>& values);

template <NamedEnum E>
E parse_choice(const std::string& flag, const std::string& text) {
  const auto names = names_of(E{});
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return static_cast<E>(i);
  throw UserError(Place{flag, 0}, "unknown value " + quote(text),
                  suggest(text, {names.begin(), names.end()}));
}

}  // namespace longbow::cli
