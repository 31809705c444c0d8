#include "longbow/core/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "longbow/core/listing.h"

namespace longbow {
namespace detail {
namespace {

std::string shown(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "empty";
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a map";
    case Node::Kind::scalar:
      break;
  }
  return (node.quoted ? "the string " : "") + quote(node.text);
}

std::string subject(const std::string& what) {
  return what.empty() ? "the value" : what;
}

}  // namespace

std::string type_error(const Node& node, const std::string& what, const std::string& wanted) {
  return fmt::format("{} is {}, not {}", subject(what), shown(node), wanted);
}

void check_range(const Node& node, const std::string& what, double value, const Range& limits) {
  bool too_small = limits.open_least ? value <= limits.least : value < limits.least;
  if (too_small || value > limits.most) fail_range(node, what, limits);
}

void fail_range(const Node& node, const std::string& what, const Range& limits) {
  throw UserError(node.place,
                  fmt::format("{} is {}, out of range", subject(what), shortened(node.text)),
                  "it may be " + range_text(limits));
}

void fail_not_a_map(const Node& node, const std::string& what) {
  throw UserError(node.place, type_error(node, what, "a map"),
                  "write its keys below it, each as `key: value`");
}

void fail_not_a_list(const Node& node, const std::string& what) {
  throw UserError(node.place, type_error(node, what, "a list"), "write [a, b]");
}

size_t choice(const Node& node, const std::string& what, std::span<const std::string_view> names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (node.is_scalar() && names[i] == node.text) return i;
  const auto text = node.is_scalar() ? quote(node.text) : shown(node);
  throw UserError(node.place, fmt::format("{} is {}", subject(what), text),
                  suggest(node.text, {names.begin(), names.end()}));
}

std::string item_of(const std::string& what, size_t index) {
  return fmt::format("{}[{}]", what, index);
}

void append(Node& list, Node item) {
  list.items.push_back(std::move(item));
}

std::string range_text(const Range& limits) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  bool bounded_below = limits.least > -kInfinity, bounded_above = limits.most < kInfinity;
  if (bounded_below && bounded_above && !limits.open_least)
    return fmt::format("{}..{}", limits.least, limits.most);
  std::string text;
  if (bounded_below) text = fmt::format("{} {}", limits.open_least ? ">" : ">=", limits.least);
  if (bounded_above) text += fmt::format("{}<= {}", bounded_below ? ", " : "", limits.most);
  return text;
}

std::string choices_text(std::span<const std::string_view> names) {
  return fmt::format("one of {}", fmt::join(names, "|"));
}

}  // namespace detail

Reader::Reader(const Node& node, const std::string& what)
    : node_(node), prefix_(what.empty() ? "" : what + ".") {}

const Node* Reader::find(const char* name) {
  return node_.find(known_.emplace_back(name));
}

std::string Reader::path(const char* name) const {
  return prefix_ + name;
}

void Reader::finish() const {
  for (const auto& [key, value] : node_.entries)
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      throw UserError(value.place, fmt::format("unknown key {}", quote(key)), suggest(key, known_));
}

void Writer::put(const char* name, Node value) {
  node_[name] = std::move(value);
}

void Describer::add(const char* name, Describer inner) {
  for (auto& doc : inner.docs_) {
    doc.name = std::string(name) + "." + doc.name;
    docs_.push_back(std::move(doc));
  }
}

void Describer::add(const char* name, std::string type, const Node& fallback, const Range& limits,
                    const char* meaning) {
  // A tree that is an empty map unless told otherwise is one of any keys.
  if (type == "any" && fallback.is_map() && fallback.entries.empty()) type = "map";
  const auto shown = fallback.is_null()     ? "none"
                     : fallback.is_scalar() ? fallback.text
                                            : to_json(fallback);
  docs_.push_back({name, std::move(type), shown, detail::range_text(limits), meaning});
}

}  // namespace longbow
