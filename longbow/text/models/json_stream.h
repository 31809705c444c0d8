#pragma once
// JSON written as it goes: a vocabulary would be a large tree.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/core/config.h"

namespace longbow {

class JsonStream {
 public:
  explicit JsonStream(int indent) : indent_(indent) {}  // negative: no line breaks

  void begin_map() { open('{'); }
  void end_map() { close('}'); }
  void begin_list() { open('['); }
  void end_list() { close(']'); }
  void key(std::string_view name);
  void string(std::string_view text);
  void integer(int64_t value);
  void number(double value);  // with a point or an exponent, so that it reads back as one
  void boolean(bool value);
  void null();
  void optional(const std::string* text);  // null for nullptr
  void node(const Node& node);

  std::string take() { return std::move(out_); }

 private:
  void item();  // a comma and a line break, where they belong
  void open(char bracket);
  void close(char bracket);
  void break_line();

  int indent_;
  std::string out_;
  std::vector<bool> has_items_;  // of each open bracket
  bool is_after_key_ = false;
};

}  // namespace longbow
