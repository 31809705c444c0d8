#include "longbow/core/fields.h"

#include <fmt/format.h>

#include "longbow/core/listing.h"

namespace longbow::detail {
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

void fail_choice(const Node& node, const std::string& what, const std::vector<std::string>& names) {
  std::string text = node.is_scalar() ? quote(node.text) : shown(node);
  throw UserError(node.place, fmt::format("{} is {}", subject(what), text),
                  suggest(node.text, names));
}

void fail_unknown_key(const Node& value, const std::string& key,
                      const std::vector<std::string>& known) {
  throw UserError(value.place, fmt::format("unknown key {}", quote(key)), suggest(key, known));
}

void fail_not_a_map(const Node& node, const std::string& what) {
  throw UserError(node.place, type_error(node, what, "a map"),
                  "write its keys below it, each as `key: value`");
}

void fail_not_a_list(const Node& node, const std::string& what) {
  throw UserError(node.place, type_error(node, what, "a list"), "write [a, b]");
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

}  // namespace longbow::detail
