#pragma once
// JSON read from front to back, a value at a time. core's parse_json builds a tree of a whole
// document with the place of each value; a corpus may be larger than memory, and most of its keys
// are of no interest.
#include <cstdint>
#include <string>
#include <string_view>

#include "longbow/corpus/files/text_file.h"

namespace longbow::corpus {

class JsonStream {
 public:
  enum class Kind { object, array, string, number, boolean, null };

  explicit JsonStream(TextFile& file);                // all of its text
  JsonStream(std::string_view text, TextFile& file);  // the line that was just read from it

  Kind kind();  // of the value that comes next

  // for (json.open_object(); json.key(name);) json.skip();
  void open_object();
  bool key(std::string& key);  // false at the end of the object
  // for (json.open_array(); json.item();) json.skip();
  void open_array();
  bool item();

  void string(std::string& text);
  void word(std::string& text);  // a number, true, false or null as it is written
  void skip();                   // any value
  void finish();                 // only blanks may follow

  int64_t line() const { return line_; }
  Place place() const { return file_.place_at(line_); }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  bool more();
  char peek() { return more() ? *at_ : '\0'; }
  void skip_blanks();
  bool take(char wanted);
  bool next_entry(char close, const char* last);
  void open();
  void escape(std::string& text);
  char32_t code_point();
  char32_t four_digits();

  TextFile& file_;
  bool streamed_;
  const char *at_, *end_;
  int64_t line_;
  size_t level_ = 0;
  bool opened_ = false;  // no entry of the innermost object or array was read
  std::string ignored_;
};

}  // namespace longbow::corpus
