#include "longbow/text/components/pattern.h"

namespace longbow {
namespace {

const std::pair<std::string, Node>& only_entry(ComponentReader& reader, const char* field) {
  const auto& node = reader.need(field);
  const bool fits = node.is_map() && node.entries.size() == 1 &&
                    (node.entries[0].first == "String" || node.entries[0].first == "Regex");
  if (!fits) reader.fail(node, std::string(field) + " must be {\"String\": …} or {\"Regex\": …}");
  return node.entries[0];
}

Regex compiled(ComponentReader& reader, const Node& where, const std::string& text, bool is_regex) {
  try {
    return is_regex ? Regex(text) : Regex::literal(text);
  } catch (const UserError& error) {
    reader.fail(where, error.what());
  }
}

}  // namespace

TextPattern::TextPattern(ComponentReader& reader, const char* field)
    : is_regex_(only_entry(reader, field).first == "Regex"),
      text_(as_string(only_entry(reader, field).second, reader.name_of(field))),
      regex_(compiled(reader, reader.need(field), text_, is_regex_)) {}

Node TextPattern::node() const {
  return Node::map({{is_regex_ ? "Regex" : "String", Node::string(text_)}});
}

}  // namespace longbow
