#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "longbow/core/config.h"
#include "longbow/core/fields.h"
#include "longbow/core/scalar.h"

namespace longbow {
namespace {

Node make_scalar(std::string text, bool quoted) {
  Node node;
  node.kind = Node::Kind::scalar;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

bool is_string(const Node& node) {
  return node.quoted || !(is_boolean_word(node.text) || is_number_word(node.text));
}

[[noreturn]] void fail_type(const Node& node, const std::string& what, const std::string& wanted,
                            const std::string& hint) {
  bool only_quotes = node.is_scalar() && node.quoted;
  throw UserError(node.place, detail::type_error(node, what, wanted),
                  only_quotes ? "write it without quotes" : hint);
}

[[noreturn]] void fail_size(const Node& node, const std::string& what, const std::string& holder) {
  throw UserError(node.place,
                  fmt::format("{} is {}, which does not fit {}", what.empty() ? "the value" : what,
                              quote(node.text), holder));
}

bool is_whole(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  bool leading_zero = text.size() > 1 && text[0] == '0';
  return !text.empty() && !leading_zero &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

template <class T>
bool parse(std::string_view text, T& value) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
}

}  // namespace

Node::Node() = default;
Node::Node(const Node& other) = default;
Node::Node(Node&& other) noexcept = default;
Node& Node::operator=(const Node& other) = default;
Node& Node::operator=(Node&& other) noexcept = default;
Node::~Node() = default;

Node Node::scalar(std::string text) {
  return is_null_word(text) ? Node{} : make_scalar(std::move(text), false);
}

Node Node::string(std::string text) {
  return make_scalar(std::move(text), true);
}

Node Node::integer(int64_t value) {
  return scalar(std::to_string(value));
}

Node Node::number(double value) {
  if (std::isnan(value)) return scalar(".nan");
  if (std::isinf(value)) return scalar(value > 0 ? ".inf" : "-.inf");
  return scalar(fmt::format("{}", value));
}

Node Node::boolean(bool value) {
  return scalar(value ? "true" : "false");
}

Node Node::list() {
  return list(std::vector<Node>());
}

Node Node::list(std::vector<Node> items) {
  Node node;
  node.kind = Kind::list;
  node.items = std::move(items);
  return node;
}

Node Node::map() {
  return map(std::vector<std::pair<std::string, Node>>());
}

Node Node::map(std::vector<std::pair<std::string, Node>> entries) {
  Node node;
  node.kind = Kind::map;
  node.entries = std::move(entries);
  return node;
}

const Node* Node::find(const std::string& key) const {
  for (const auto& [name, value] : entries)
    if (name == key) return &value;
  return nullptr;
}

Node& Node::operator[](const std::string& key) {
  if (is_null()) kind = Kind::map;
  if (!is_map())
    throw UserError(place, fmt::format("{} is wanted in what is not a map", quote(key)));
  for (auto& [name, value] : entries)
    if (name == key) return value;
  return entries.emplace_back(key, Node{}).second;
}

const Place& Node::place_of(const std::string& key) const {
  const auto dot = key.find('.');
  const auto* found = find(key.substr(0, dot));
  if (!found) return place;
  return dot == std::string::npos ? found->place : found->place_of(key.substr(dot + 1));
}

std::vector<std::string> Node::keys() const {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.first);
  return names;
}

bool operator==(const Node& left, const Node& right) {
  if (left.kind != right.kind) return false;
  if (left.is_scalar()) return left.text == right.text && is_string(left) == is_string(right);
  return left.items == right.items && left.entries == right.entries;
}

int64_t as_integer(const Node& node, const std::string& what) {
  int64_t value = 0;
  if (!node.is_scalar() || node.quoted || !is_whole(node.text))
    fail_type(node, what, "an integer", "write a whole number such as 64");
  if (!parse(node.text, value)) fail_size(node, what, "64 bits");
  return value;
}

double as_number(const Node& node, const std::string& what) {
  double value = 0;
  if (!node.is_scalar() || node.quoted || !is_number_word(node.text))
    fail_type(node, what, "a number", "write a finite number such as 0.5 or 1e-3");
  if (!parse(node.text, value) || !std::isfinite(value)) fail_size(node, what, "a double");
  return value;
}

bool as_boolean(const Node& node, const std::string& what) {
  if (!node.is_scalar() || node.quoted || !is_boolean_word(node.text))
    fail_type(node, what, "a boolean", "write true or false");
  return node.text == "true";
}

std::string as_string(const Node& node, const std::string& what) {
  if (!node.is_scalar())
    throw UserError(node.place, detail::type_error(node, what, "a string"),
                    "write a text, \"\" for an empty one");
  return node.text;
}

}  // namespace longbow
