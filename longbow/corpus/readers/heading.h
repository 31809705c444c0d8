#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace longbow::corpus {

// A regular expression that must match the whole of a line.
class Heading {
 public:
  explicit Heading(const std::string& pattern);  // OptionError `heading` when it is not valid
  ~Heading();
  Heading(const Heading&) = delete;
  Heading& operator=(const Heading&) = delete;

  // Whether the line is a heading. `title` receives the first group, or the whole line.
  bool matches(std::string_view line, std::string& title) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace longbow::corpus
