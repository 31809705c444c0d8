#include "longbow/text/models/json_stream.h"

#include <array>
#include <charconv>

#include "longbow/core/scalar.h"

namespace longbow {
namespace {

// Only what JSON asks for is escaped, so that a vocabulary stays readable and as large as it is.
void append_literal(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kMeanings = "\"\\\b\f\n\r\t", kNames = "\"\\bfnrt";
  out += '"';
  for (const char c : text) {
    const auto named = kMeanings.find(c);
    const auto byte = static_cast<unsigned char>(c);
    if (named != std::string_view::npos)
      (out += '\\') += kNames[named];
    else if (byte < 0x20)
      ((out += "\\u00") += kHex[byte >> 4]) += kHex[byte & 15];
    else
      out += c;
  }
  out += '"';
}

}  // namespace

void JsonStream::break_line() {
  if (indent_ < 0) return;
  out_ += '\n';
  out_.append(static_cast<size_t>(indent_) * has_items_.size(), ' ');
}

void JsonStream::item() {
  if (is_after_key_) {
    is_after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) out_ += ',';
  has_items_.back() = true;
  break_line();
}

void JsonStream::open(char bracket) {
  item();
  out_ += bracket;
  has_items_.push_back(false);
}

void JsonStream::close(char bracket) {
  const bool has_items = has_items_.back();
  has_items_.pop_back();
  if (has_items) break_line();
  out_ += bracket;
}

void JsonStream::key(std::string_view name) {
  item();
  append_literal(out_, name);
  out_ += indent_ < 0 ? ":" : ": ";
  is_after_key_ = true;
}

void JsonStream::string(std::string_view text) {
  item();
  append_literal(out_, text);
}

void JsonStream::integer(int64_t value) {
  item();
  out_ += std::to_string(value);
}

void JsonStream::number(double value) {
  item();
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  const std::string_view text(buffer.data(), static_cast<size_t>(end - buffer.data()));
  out_ += text;
  if (text.find_first_of(".e") == text.npos) out_ += ".0";
}

void JsonStream::boolean(bool value) {
  item();
  out_ += value ? "true" : "false";
}

void JsonStream::null() {
  item();
  out_ += "null";
}

void JsonStream::optional(const std::string* text) {
  text ? string(*text) : null();
}

void JsonStream::node(const Node& value) {
  if (value.is_null()) return null();
  if (value.is_map()) {
    begin_map();
    for (const auto& [name, entry] : value.entries) {
      key(name);
      node(entry);
    }
    return end_map();
  }
  if (value.is_list()) {
    begin_list();
    for (const auto& entry : value.items) node(entry);
    return end_list();
  }
  const bool is_bare = !value.quoted && (is_boolean_word(value.text) || is_json_number(value.text));
  if (!is_bare) return string(value.text);
  item();
  out_ += value.text;
}

}  // namespace longbow
