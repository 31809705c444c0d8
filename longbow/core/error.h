#pragma once
#include <stdexcept>
#include <string>
#include <vector>

namespace longbow {

// Where something was written: a file and a line, or a flag ("--set") when line is 0.
struct Place {
  std::string file;
  int line = 0;
  std::string str() const;  // "listops.yaml:12", "--set model.rank", or "" when unknown
};

// The user's mistake: config, flag or data file. main() prints it as one line and exits with 2.
class UserError : public std::runtime_error {
 public:
  UserError(const Place& place, const std::string& what, const std::string& hint = "");
  explicit UserError(const std::string& what, const std::string& hint = "")
      : UserError({}, what, hint) {}
};

// 'text' for a message: in quotes, cut when it is long.
std::string quote(const std::string& text);

// The closest name by edit distance, or "" when none is near enough to be a typo.
std::string nearest(const std::string& name, const std::vector<std::string>& known);

// "did you mean 'rank'?" when a name is near, else "one of: a, b, c".
std::string suggest(const std::string& name, const std::vector<std::string>& known);

}  // namespace longbow
