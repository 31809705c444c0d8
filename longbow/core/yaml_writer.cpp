#include <algorithm>
#include <array>
#include <cctype>

#include "longbow/core/config.h"
#include "longbow/core/scalar.h"
#include "longbow/core/utf8.h"

namespace longbow {
namespace {

constexpr size_t kLongestSimpleKey =
    1000;  // YAML stops looking for the colon after 1024 characters

// Words that some YAML reader takes for something other than a string.
bool is_reserved_word(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::array<std::string_view, 12> kWords = {
      "null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"};
  return std::find(kWords.begin(), kWords.end(), text) != kWords.end();
}

bool is_plain(const std::string& text) {
  auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : ' '; };
  bool starts_well = std::isalpha(at(0)) || at(0) == '_' || at(0) == '/' || at(0) >= 0x80;
  if (!starts_well || at(text.size() - 1) == ' ' || is_reserved_word(text)) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    bool word = std::isalnum(at(i)) || at(i) >= 0x80 ||
                std::string_view("_./+-@()=*;, ").find(text[i]) != std::string_view::npos;
    bool colon = at(i) == ':' && at(i + 1) != ' ';
    if (!word && !colon) return false;
  }
  return string_literal(text).size() == text.size() + 2;
}

std::string string_text(const std::string& text) {
  return is_plain(text) ? text : string_literal(text);
}

std::string scalar_text(const Node& node) {
  bool typed = !node.quoted && (is_boolean_word(node.text) || is_number_word(node.text));
  return typed ? node.text : string_text(node.text);
}

std::string inline_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "null";
    case Node::Kind::scalar:
      return scalar_text(node);
    case Node::Kind::list:
      return node.items.empty() ? "[]" : "";
    case Node::Kind::map:
      return node.entries.empty() ? "{}" : "";
  }
  return "";
}

void write_block(const Node& node, size_t indent, std::string& out);

// What stands after "key:"; a nested block starts on the next line.
void write_value(const Node& node, size_t indent, std::string& out) {
  auto text = inline_text(node);
  if (!text.empty()) {
    out += " " + text + "\n";
    return;
  }
  out += "\n" + std::string(indent + 2, ' ');
  write_block(node, indent + 2, out);
}

void write_entry(const std::string& key, const Node& value, size_t indent, std::string& out) {
  auto name = string_text(key);
  out += name.size() > kLongestSimpleKey ? "? " + name + "\n" + std::string(indent, ' ') + ":"
                                         : name + ":";
  write_value(value, indent, out);
}

// Writes a container that is not empty, the cursor standing at its first column.
void write_block(const Node& node, size_t indent, std::string& out) {
  bool first = true;
  auto start = [&] {
    if (!first) out += std::string(indent, ' ');
    first = false;
  };
  for (const auto& [key, value] : node.entries) {
    start();
    write_entry(key, value, indent, out);
  }
  for (const auto& item : node.items) {
    start();
    auto text = inline_text(item);
    out += "- " + (text.empty() ? "" : text + "\n");
    if (text.empty()) write_block(item, indent + 2, out);
  }
}

}  // namespace

std::string to_yaml(const Node& node) {
  auto text = inline_text(node);
  if (!text.empty()) return text + "\n";
  std::string out;
  write_block(node, 0, out);
  return out;
}

}  // namespace longbow
