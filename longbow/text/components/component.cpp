#include "longbow/text/components/component.h"

#include <fmt/format.h>

#include <algorithm>

#include "longbow/core/utf8.h"

namespace longbow {

ComponentReader::ComponentReader(const Node& node, std::string kind)
    : node_(node), kind_(std::move(kind)) {
  if (!node.is_map()) throw UserError(node.place, kind_ + " must be an object or null");
  const auto* type = node.find("type");
  if (!type) throw UserError(node.place, kind_ + " has no \"type\"");
  type_ = as_string(*type, kind_ + ": type");
}

std::string ComponentReader::name_of(const char* field) const {
  return fmt::format("{} {}: {}", kind_, type_, field);
}

void ComponentReader::fail(const Node& where, const std::string& what,
                           const std::string& hint) const {
  throw UserError(where.place, fmt::format("{} {}: {}", kind_, type_, what), hint);
}

void ComponentReader::fail_type(const std::vector<std::string>& known) const {
  throw UserError(node_.place, fmt::format("unknown {} {}", kind_, quote(type_)),
                  suggest(type_, known));
}

const Node* ComponentReader::find(const char* field) {
  asked_.emplace_back(field);
  const auto* node = node_.find(field);
  return node && !node->is_null() ? node : nullptr;
}

const Node& ComponentReader::need(const char* field) {
  const auto* node = find(field);
  if (!node) fail(node_, fmt::format("{} is missing", field));
  return *node;
}

bool ComponentReader::boolean(const char* field) {
  return as_boolean(need(field), name_of(field));
}

bool ComponentReader::boolean(const char* field, bool otherwise) {
  return optional_boolean(field).value_or(otherwise);
}

std::optional<bool> ComponentReader::optional_boolean(const char* field) {
  const auto* node = find(field);
  if (!node) return {};
  return as_boolean(*node, name_of(field));
}

std::string ComponentReader::string(const char* field) {
  return as_string(need(field), name_of(field));
}

std::string ComponentReader::string(const char* field, const std::string& otherwise) {
  return optional_string(field).value_or(otherwise);
}

std::optional<std::string> ComponentReader::optional_string(const char* field) {
  const auto* node = find(field);
  if (!node) return {};
  return as_string(*node, name_of(field));
}

char32_t ComponentReader::character(const char* field) {
  const auto text = string(field);
  const auto first = utf8_at(text, 0);
  if (!first.valid || first.bytes != text.size())
    fail(need(field), fmt::format("{} must be one character", field));
  return first.code;
}

size_t ComponentReader::count(const char* field) {
  const auto value = as_integer(need(field), name_of(field));
  if (value < 0) fail(need(field), fmt::format("{} must not be negative", field));
  return static_cast<size_t>(value);
}

size_t ComponentReader::choice(const char* field, const std::vector<std::string>& names) {
  const auto name = string(field);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    fail(need(field), fmt::format("{} is {}", field, quote(name)), suggest(name, names));
  return static_cast<size_t>(found - names.begin());
}

size_t ComponentReader::choice(const char* field, const std::vector<std::string>& names,
                               size_t otherwise) {
  return find(field) ? choice(field, names) : otherwise;
}

void ComponentReader::finish() const {
  for (const auto& [key, value] : node_.entries)
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end())
      fail(value, fmt::format("unknown field {}", quote(key)), suggest(key, asked_));
}

Node component_node(const std::string& type, std::vector<std::pair<std::string, Node>> fields) {
  fields.insert(fields.begin(), {"type", Node::string(type)});
  return Node::map(std::move(fields));
}

Node string_of(char32_t character) {
  std::string text;
  append_utf8(text, character);
  return Node::string(text);
}

}  // namespace longbow
