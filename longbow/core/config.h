#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "longbow/core/error.h"

namespace longbow {

// A config tree: what a YAML or JSON document says, with the place of every value. Scalars stay
// text until a field gives them a type, so YAML's guesses (`no`, `1e-3`) never matter.
struct Node {
  // Defined in node.cpp: every file that includes this would compile a tree of vectors again.
  Node();
  Node(const Node& other);
  Node(Node&& other) noexcept;
  Node& operator=(const Node& other);
  Node& operator=(Node&& other) noexcept;
  ~Node();

  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;                                   // scalar
  bool quoted = false;                                // scalar: written as a string on purpose
  std::vector<Node> items;                            // list
  std::vector<std::pair<std::string, Node>> entries;  // map, in the order written
  Place place;

  static Node scalar(
      std::string text);  // what the bare word means: 12, true, linformer; null for ~
  static Node string(std::string text);  // always a string, even "12" or ""
  static Node integer(int64_t value);
  static Node number(double value);
  static Node boolean(bool value);
  static Node list();
  static Node list(std::vector<Node> items);
  static Node map();
  static Node map(std::vector<std::pair<std::string, Node>> entries);

  bool is_null() const { return kind == Kind::null; }
  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_list() const { return kind == Kind::list; }
  bool is_map() const { return kind == Kind::map; }
  const Node* find(const std::string& key) const;  // nullptr when absent or not a map
  Node& operator[](const std::string& key);        // inserts; makes a map of a null node
  std::vector<std::string> keys() const;
  // Where "a.b" is written, or the innermost map of the two that is there.
  const Place& place_of(const std::string& key) const;
};

// The same content: places do not count, and quotes only where they make a string of a number or a
// boolean.
bool operator==(const Node& left, const Node& right);

// Typed views of a scalar; a mismatch is a UserError at its place that names `what`.
int64_t as_integer(const Node& node, const std::string& what);
double as_number(const Node& node, const std::string& what);
bool as_boolean(const Node& node, const std::string& what);
std::string as_string(const Node& node, const std::string& what);

// Reading. Duplicate keys, anchors with cycles, several documents and broken syntax are UserErrors.
Node parse_yaml(const std::string& text, const std::string& name);
Node parse_yaml(const std::string& text, const Place& flag);  // every value stands at `flag`
Node parse_json(const std::string& text,
                const std::string& name);  // strict JSON, for files that programs wrote
// Reads a file and the file its `base:` names (relative to it), the nearer one winning key by key.
Node load_config(const std::string& path);
// The same for a map inside a file: what its `base:` names, or an empty map, and what it has
// itself.
Node load_base(const Node& node);
Node without_base(Node node);
// `over` wins; maps merge key by key, everything else is replaced. A map with another `name:`
// replaces whole, so the options of one mechanism never leak into another. (Whole configs, as
// `base:` stacks them, merge by key.)
Node merged(const Node& under, const Node& over);
// "model.attention.rank=64" sets exactly that key; the value is YAML. Places of the new nodes read
// "--set model.attention.rank".
void assign(Node& root, const std::string& assignment);

std::string to_yaml(const Node& node);
std::string to_json(const Node& node, int indent = -1);

}  // namespace longbow
