#include "longbow/corpus/readers/json_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "longbow/core/error.h"
#include "longbow/core/limits.h"
#include "longbow/core/scalar.h"
#include "longbow/core/utf8.h"

namespace longbow::corpus {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool is_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.';
}

bool ends_run(char c) {
  return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
}

}  // namespace

JsonStream::JsonStream(TextFile& file)
    : file_(file), streamed_(true), at_(nullptr), end_(nullptr), line_(file.line_number() + 1) {}

JsonStream::JsonStream(std::string_view text, TextFile& file)
    : file_(file),
      streamed_(false),
      at_(text.data()),
      end_(text.data() + text.size()),
      line_(file.line_number()) {}

void JsonStream::fail(const std::string& what) const {
  throw UserError(place(), "not valid JSON: " + what);
}

bool JsonStream::more() {
  if (at_ < end_) return true;
  if (!streamed_) return false;
  const auto block = file_.block();
  at_ = block.data();
  end_ = at_ + block.size();
  return at_ < end_;
}

void JsonStream::skip_blanks() {
  while (more()) {
    for (; at_ < end_; ++at_) {
      if (!is_blank(*at_)) return;
      line_ += *at_ == '\n';
    }
  }
}

bool JsonStream::take(char wanted) {
  skip_blanks();
  if (!more() || *at_ != wanted) return false;
  ++at_;
  return true;
}

JsonStream::Kind JsonStream::kind() {
  skip_blanks();
  if (!more()) fail("the text ends where a value is expected");
  switch (*at_) {
    case '{':
      return Kind::object;
    case '[':
      return Kind::array;
    case '"':
      return Kind::string;
    case 't':
    case 'f':
      return Kind::boolean;
    case 'n':
      return Kind::null;
    default:
      return Kind::number;
  }
}

void JsonStream::open() {
  ++at_;
  opened_ = true;
  if (++level_ > kMostLevels) fail(fmt::format("nested deeper than {} levels", kMostLevels));
}

void JsonStream::open_object() {
  if (kind() != Kind::object) fail("an object is expected");
  open();
}

void JsonStream::open_array() {
  if (kind() != Kind::array) fail("a list is expected");
  open();
}

bool JsonStream::next_entry(char close, const char* last) {
  const bool first = std::exchange(opened_, false);
  if (!(first ? take(close) : !take(','))) return true;
  if (!first && !take(close)) fail(fmt::format("'{}' is missing after {}", close, last));
  --level_;
  return false;
}

bool JsonStream::key(std::string& key) {
  if (!next_entry('}', "the last entry")) return false;
  skip_blanks();
  if (peek() != '"') fail("a key in double quotes is expected");
  string(key);
  if (!take(':')) fail("':' is missing after a key");
  return true;
}

bool JsonStream::item() {
  return next_entry(']', "the last item");
}

void JsonStream::string(std::string& text) {
  if (kind() != Kind::string) fail("a string is expected");
  ++at_;
  text.clear();
  while (more()) {
    const auto* end = std::find_if(at_, end_, ends_run);
    text.append(at_, end);
    at_ = end;
    if (std::cmp_greater(text.size(), file_.options().max_line))
      fail(fmt::format("a string is longer than {} bytes", file_.options().max_line));
    if (at_ == end_) continue;
    const char c = *at_++;
    if (c == '"') return;
    if (c != '\\') fail("a string contains a control character");
    escape(text);
  }
  fail("a string does not end");
}

// After the backslash.
void JsonStream::escape(std::string& text) {
  constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  const char name = peek();
  if (name == 'u') return append_utf8(text, code_point());
  const auto index = name == '\0' ? std::string_view::npos : kNames.find(name);
  if (index == std::string_view::npos) fail("a string contains an unknown escape");
  text += kMeanings[index];
  ++at_;
}

char32_t JsonStream::code_point() {
  const char32_t code = four_digits();
  if (code == 0) fail("a string contains the character U+0000");
  if (code < 0xd800 || code > 0xdfff) return code;
  const auto half = [&] { fail("a string contains half of a surrogate pair"); };
  if (code > 0xdbff || peek() != '\\') half();
  ++at_;
  if (peek() != 'u') half();
  const char32_t low = four_digits();
  if (low < 0xdc00 || low > 0xdfff) half();
  return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
}

// From the u on.
char32_t JsonStream::four_digits() {
  ++at_;
  char32_t code = 0;
  for (int i = 0; i < 4; ++i) {
    const char digit = peek();
    if (!std::isxdigit(static_cast<unsigned char>(digit)))
      fail("\\u needs four hexadecimal digits");
    const bool is_decimal = digit <= '9';
    code = code << 4 | static_cast<char32_t>(is_decimal ? digit - '0' : (digit | 0x20) - 'a' + 10);
    ++at_;
  }
  return code;
}

void JsonStream::word(std::string& text) {
  skip_blanks();
  text.clear();
  constexpr size_t kMost = 1000;  // digits that a number may have
  while (more() && is_of_word(*at_) && text.size() < kMost) text += *at_++;
  if (text != "null" && !is_boolean_word(text) && !is_json_number(text))
    fail(text.empty() ? "a value is expected" : fmt::format("{} is not a value", quote(text)));
}

void JsonStream::skip() {
  switch (kind()) {
    case Kind::object:
      for (open_object(); key(ignored_);) skip();
      return;
    case Kind::array:
      for (open_array(); item();) skip();
      return;
    case Kind::string:
      return string(ignored_);
    default:
      return word(ignored_);
  }
}

void JsonStream::finish() {
  skip_blanks();
  if (more()) fail("text after the end of the value");
}

}  // namespace longbow::corpus
