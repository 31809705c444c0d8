#pragma once
// How the parts of a tokenizer are read from tokenizer.json: every field by name, none left over.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longbow/core/config.h"

namespace longbow {

class ComponentReader {
 public:
  // `kind` is the place in the file: "normalizer", "decoder". The node is a map with a "type".
  ComponentReader(const Node& node, std::string kind);

  const std::string& type() const { return type_; }
  const Place& place() const { return node_.place; }
  const Node* find(const char* field);  // nullptr when absent or null
  const Node& need(const char* field);
  bool boolean(const char* field);
  bool boolean(const char* field, bool otherwise);
  std::optional<bool> optional_boolean(const char* field);
  std::string string(const char* field);
  std::string string(const char* field, const std::string& otherwise);
  std::optional<std::string> optional_string(const char* field);
  char32_t character(const char* field);
  size_t count(const char* field);
  // One of these names, as its index.
  size_t choice(const char* field, const std::vector<std::string>& names);
  size_t choice(const char* field, const std::vector<std::string>& names, size_t otherwise);

  void finish() const;  // a field that was not asked for is a UserError
  // A UserError that names the component and says what is wrong with it.
  [[noreturn]] void fail(const Node& where, const std::string& what,
                         const std::string& hint = "") const;
  [[noreturn]] void fail_type(const std::vector<std::string>& known) const;
  std::string name_of(const char* field) const;  // "normalizer Replace: content"

 private:
  const Node& node_;
  std::string kind_, type_;
  std::vector<std::string> asked_ = {"type"};
};

// The map that a component is written as; fields in the order given.
Node component_node(const std::string& type, std::vector<std::pair<std::string, Node>> fields = {});
Node string_of(char32_t character);

// A type that a component may have, and how it is read. Ptr is a shared pointer to the component.
template <class Ptr>
struct ComponentRow {
  const char* type;
  Ptr (*read)(ComponentReader&);
};
// Readers of a row: by a constructor that takes the fields, or by one that takes none.
template <class Ptr, class T>
Ptr component_with_fields(ComponentReader& reader) {
  return std::make_shared<T>(reader);
}
template <class Ptr, class T>
Ptr component_alone(ComponentReader&) {
  return std::make_shared<T>();
}

// The component of the row with its type; nullptr for null. A type that no row has, and a field
// that its row does not, are UserErrors.
template <class Ptr>
Ptr read_component(const Node& node, const char* kind, std::span<const ComponentRow<Ptr>> rows) {
  if (node.is_null()) return nullptr;
  ComponentReader reader(node, kind);
  std::vector<std::string> known;
  for (const auto& row : rows) {
    known.emplace_back(row.type);
    if (reader.type() != row.type) continue;
    auto made = row.read(reader);
    reader.finish();
    return made;
  }
  reader.fail_type(known);
}

// The components of a Sequence, which are in the list `field`, and the Sequence as it is written.
template <class Ptr>
std::vector<Ptr> read_steps(ComponentReader& reader, const char* field, Ptr (*read)(const Node&)) {
  const auto& list = reader.need(field);
  if (!list.is_list()) reader.fail(list, std::string(field) + " must be a list");
  std::vector<Ptr> steps;
  for (const auto& item : list.items)
    if (auto step = read(item)) steps.push_back(std::move(step));
  return steps;
}
template <class Ptr>
Node sequence_node(const char* field, const std::vector<Ptr>& steps) {
  auto list = Node::list();
  for (const auto& step : steps) list.items.push_back(step->node());
  return component_node("Sequence", {{field, std::move(list)}});
}

}  // namespace longbow
