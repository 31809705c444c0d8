#pragma once
// How the parts of a tokenizer are read from tokenizer.json: every field by name, none left over.
#include <optional>
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

}  // namespace longbow
