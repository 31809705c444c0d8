#pragma once
// What Replace and Split look for: {"String": …} or {"Regex": …}.
#include <string>

#include "longbow/text/components/component.h"
#include "longbow/text/unicode/regex.h"

namespace longbow {

class TextPattern {
 public:
  TextPattern(ComponentReader& reader, const char* field);
  Node node() const;
  const Regex& regex() const { return regex_; }

 private:
  bool is_regex_ = false;
  std::string text_;
  Regex regex_;
};

}  // namespace longbow
