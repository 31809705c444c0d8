#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "longbow/core/config.h"
#include "longbow/core/limits.h"
#include "longbow/core/scalar.h"
#include "longbow/core/utf8.h"

namespace longbow {
namespace {

class JsonReader {
 public:
  JsonReader(std::string_view text, std::string name)
      : text_(without_byte_order_mark(text)), name_(std::move(name)) {}

  Node document() {
    size_t broken = find_invalid_utf8(text_);
    if (broken != std::string_view::npos) fail_at(broken, "not UTF-8");
    auto node = value(0);
    skip_blanks();
    if (at_ < text_.size()) fail("text after the end of the value");
    return node;
  }

 private:
  [[noreturn]] void fail_at(size_t offset, const std::string& what) const {
    auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text_.size()));
    Place place{name_, 1 + static_cast<int>(std::count(text_.begin(), end, '\n'))};
    throw UserError(place, "not valid JSON: " + what);
  }
  [[noreturn]] void fail(const std::string& what) const { fail_at(at_, what); }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_blanks() {
    for (; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '\n') ++line_;
      if (c != ' ' && c != '\t' && c != '\r' && c != '\n') return;
    }
  }

  bool take(char wanted) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted, const char* after) {
    if (!take(wanted)) fail(fmt::format("'{}' is missing after {}", wanted, after));
  }

  Node value(size_t level) {
    skip_blanks();
    Place place{name_, line_};
    if (++values_ > kMostValues)
      throw UserError(place, fmt::format("holds more than {} values", kMostValues));
    auto node = level > kMostLevels ? too_deep() : unplaced_value(level);
    node.place = std::move(place);
    return node;
  }

  [[noreturn]] Node too_deep() const {
    fail(fmt::format("nested deeper than {} levels", kMostLevels));
  }

  Node unplaced_value(size_t level) {
    if (at_ >= text_.size()) fail("the text ends where a value is expected");
    if (peek() == '{') return map(level);
    if (peek() == '[') return list(level);
    if (peek() == '"') return Node::string(string());
    return word();
  }

  Node map(size_t level) {
    ++at_;
    auto node = Node::map();
    std::set<std::string> keys;
    if (take('}')) return node;
    do {
      skip_blanks();
      if (peek() != '"') fail("a key in double quotes is expected");
      auto key = string();
      if (!keys.insert(key).second) fail(fmt::format("duplicate key {}", quote(key)));
      expect(':', "a key");
      node.entries.emplace_back(std::move(key), value(level + 1));
    } while (take(','));
    expect('}', "the last entry");
    return node;
  }

  Node list(size_t level) {
    ++at_;
    auto node = Node::list();
    if (take(']')) return node;
    do node.items.push_back(value(level + 1));
    while (take(','));
    expect(']', "the last item");
    return node;
  }

  Node word() {
    size_t end = at_;
    auto continues = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.';
    };
    while (end < text_.size() && continues(text_[end])) ++end;
    std::string text(text_.substr(at_, end - at_));
    if (text != "null" && !is_boolean_word(text) && !is_json_number(text))
      fail(text.empty() ? "a value is expected" : fmt::format("{} is not a value", quote(text)));
    at_ = end;
    return Node::scalar(std::move(text));
  }

  std::string string() {
    std::string out;
    for (++at_; peek() != '"'; ++at_) {
      if (at_ >= text_.size()) fail("a string does not end");
      if (static_cast<unsigned char>(peek()) < 0x20) fail("a string contains a control character");
      if (peek() == '\\') {
        ++at_;
        escape(out);
      } else {
        out += peek();
      }
    }
    ++at_;
    return out;
  }

  void escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    if (peek() == 'u') return append_utf8(out, code_point());
    auto index = at_ < text_.size() ? kNames.find(peek()) : std::string_view::npos;
    if (index == std::string_view::npos) fail("a string contains an unknown escape");
    out += kMeanings[index];
  }

  // Leaves the cursor on the last digit.
  char32_t code_point() {
    char32_t code = four_digits();
    if (code < 0xd800 || code > 0xdfff) return code;
    bool pair = code < 0xdc00 && text_.substr(at_ + 1, 2) == "\\u";
    if (!pair) fail("a string contains half of a surrogate pair");
    at_ += 2;
    char32_t low = four_digits();
    if (low < 0xdc00 || low > 0xdfff) fail("a string contains half of a surrogate pair");
    return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }

  char32_t four_digits() {
    char32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      ++at_;
      auto digit = std::string_view("0123456789abcdef").find(static_cast<char>(peek() | 0x20));
      bool is_hex =
          std::isxdigit(static_cast<unsigned char>(peek())) && digit != std::string_view::npos;
      if (!is_hex) fail("\\u needs four hexadecimal digits");
      code = code << 4 | static_cast<char32_t>(digit);
    }
    return code;
  }

  std::string_view text_;
  std::string name_;
  size_t at_ = 0;
  int line_ = 1;
  size_t values_ = 0;
};

}  // namespace

Node parse_json(const std::string& text, const std::string& name) {
  return JsonReader(text, name).document();
}

}  // namespace longbow
