#pragma once
// fields(): each config struct is described once,
//   template <class V> void fields(V& v, Config& c) { v("rank", c.rank, "projected length k",
//   range(1, 65536)); }
// and the reader, the writer and the documentation all come from that description.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "longbow/core/config.h"

namespace longbow {

struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool open_least = false;  // the lower end itself is not allowed
};
inline Range range(double least, double most) {
  return {least, most, false};
}
inline Range at_least(double least) {
  return {least, std::numeric_limits<double>::infinity(), false};
}
inline Range above(double least) {
  return {least, std::numeric_limits<double>::infinity(), true};
}

// One line of documentation, as `describe` and the mechanism pages print it.
struct FieldDoc {
  std::string name;      // dotted for nested structs
  std::string type;      // integer, number, boolean, string, one of a|b, list of …, map, any
  std::string fallback;  // the default, as YAML
  std::string range;     // "1..65536", "> 0", ""
  std::string meaning;
};

// An enum becomes a field by a function found by argument-dependent look-up that lists the names of
// its values 0, 1, 2 …:   constexpr std::array<std::string_view, 2> names_of(Sharing) { return
// {"none", "kv"}; }
template <class T>
concept NamedEnum = std::is_enum_v<T> && requires(T t) {
  names_of(t);
};

// "post_norm" of Residual::post_norm.
template <NamedEnum E>
std::string name_of(E value) {
  return std::string(names_of(value)[static_cast<size_t>(value)]);
}

class Reader;
class Writer;
class Describer;
template <class T>
concept Described = std::is_class_v<T> && requires(T t, Reader& v) {
  fields(v, t);
};

namespace detail {
std::string type_error(const Node&, const std::string& what, const std::string& wanted);
void check_range(const Node&, const std::string& what, double value, const Range&);
[[noreturn]] void fail_range(const Node&, const std::string& what, const Range&);
[[noreturn]] void fail_not_a_map(const Node&, const std::string& what);
[[noreturn]] void fail_not_a_list(const Node&, const std::string& what);
// Which of the names a scalar is.
size_t choice(const Node&, const std::string& what, std::span<const std::string_view> names);
std::string item_of(const std::string& what, size_t index);  // "layers[2]"
void append(Node& list, Node item);
std::string range_text(const Range&);                               // "0..1", ">= 0.5"
std::string choices_text(std::span<const std::string_view> names);  // "one of a|b"
template <class T>
Range range_of() {
  using Limits = std::numeric_limits<T>;
  return range(static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max()));
}
template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};
template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};
}  // namespace detail

template <class T>
void read_value(const Node& node, const std::string& what, T& out, const Range& limits);

// Strict: a key that no field names is an error, with the nearest name as its hint.
class Reader {
 public:
  Reader(const Node& node, const std::string& what);
  template <class T>
  void operator()(const char* name, T& value, const char* /*meaning*/, const Range& limits = {}) {
    if (const Node* found = find(name)) read_value(*found, path(name), value, limits);
  }
  void finish() const;

 private:
  const Node* find(const char* name);  // a field asks for it: the key is known
  std::string path(const char* name) const;
  const Node& node_;
  std::string prefix_;
  std::vector<std::string> known_;
};

// Reads a described struct; what the tree does not say keeps its default. `what` names the struct
// in errors.
template <Described T>
T read(const Node& node, const std::string& what = "") {
  T value;
  read_value(node, what, value, Range{});
  return value;
}

template <class T>
void read_value(const Node& node, const std::string& what, T& out, const Range& limits) {
  if constexpr (std::is_same_v<T, Node>) {
    out = node;
  } else if constexpr (detail::is_optional<T>::value) {
    if (node.is_null()) {
      out.reset();
      return;
    }
    typename T::value_type inner{};
    read_value(node, what, inner, limits);
    out = inner;
  } else if constexpr (detail::is_vector<T>::value) {
    if (!node.is_list()) detail::fail_not_a_list(node, what);
    out.clear();
    for (const auto& item : node.items) {
      typename T::value_type inner{};
      read_value(item, detail::item_of(what, out.size()), inner, limits);
      out.push_back(std::move(inner));
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    out = as_boolean(node, what);
  } else if constexpr (std::is_same_v<T, std::string>) {
    out = as_string(node, what);
  } else if constexpr (NamedEnum<T>) {
    out = static_cast<T>(detail::choice(node, what, names_of(T{})));
  } else if constexpr (std::is_integral_v<T>) {
    auto value = as_integer(node, what);
    detail::check_range(node, what, static_cast<double>(value), limits);
    if (!std::in_range<T>(value)) detail::fail_range(node, what, detail::range_of<T>());
    out = static_cast<T>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    auto value = as_number(node, what);
    detail::check_range(node, what, value, limits);
    if (std::abs(value) > std::numeric_limits<T>::max())
      detail::fail_range(node, what, detail::range_of<T>());
    out = static_cast<T>(value);
  } else {
    static_assert(Described<T>,
                  "a field must be a scalar, an enum with names_of(), a list, or have fields()");
    if (node.is_null()) return;
    if (!node.is_map()) detail::fail_not_a_map(node, what);
    Reader reader(node, what);
    fields(reader, out);
    reader.finish();
  }
}

// Spells every field out, so that what it writes re-reads to the same struct.
class Writer {
 public:
  template <class T>
  void operator()(const char* name, T& value, const char* /*meaning*/,
                  const Range& /*limits*/ = {}) {
    put(name, write(value));
  }
  Node take() { return std::move(node_); }
  template <class T>
  static Node write(T& value) {
    using U = std::remove_const_t<T>;
    if constexpr (std::is_same_v<U, Node>)
      return value;
    else if constexpr (detail::is_optional<U>::value)
      return value ? write(*value) : Node{};
    else if constexpr (detail::is_vector<U>::value) {
      Node list = Node::list();
      for (typename U::value_type item : value) detail::append(list, write(item));
      return list;
    } else if constexpr (std::is_same_v<U, bool>)
      return Node::boolean(value);
    else if constexpr (std::is_same_v<U, std::string>)
      return Node::string(value);
    else if constexpr (NamedEnum<U>)
      return Node::string(name_of(value));
    else if constexpr (std::is_integral_v<U>)
      return Node::integer(static_cast<int64_t>(value));
    else if constexpr (std::is_floating_point_v<U>)
      return Node::number(static_cast<double>(value));
    else {
      Writer writer;
      fields(writer, value);
      return writer.take();
    }
  }

 private:
  void put(const char* name, Node value);
  Node node_ = Node::map();
};
template <Described T>
Node written(T value) {
  return Writer::write(value);
}

class Describer {
 public:
  template <class T>
  void operator()(const char* name, T& value, const char* meaning, const Range& limits = {}) {
    if constexpr (Described<T>) {
      Describer inner;
      fields(inner, value);
      add(name, std::move(inner));
    } else {
      add(name, type_of<T>(), Writer::write(value), limits, meaning);
    }
  }
  std::vector<FieldDoc> take() { return std::move(docs_); }

 private:
  void add(const char* name, Describer inner);
  void add(const char* name, std::string type, const Node& fallback, const Range& limits,
           const char* meaning);
  template <class T>
  static std::string type_of() {
    if constexpr (std::is_same_v<T, Node>)
      return "any";
    else if constexpr (detail::is_optional<T>::value)
      return type_of<typename T::value_type>();
    else if constexpr (detail::is_vector<T>::value)
      return "list of " + type_of<typename T::value_type>();
    else if constexpr (std::is_same_v<T, bool>)
      return "boolean";
    else if constexpr (std::is_same_v<T, std::string>)
      return "string";
    else if constexpr (std::is_integral_v<T>)
      return "integer";
    else if constexpr (std::is_floating_point_v<T>)
      return "number";
    else if constexpr (NamedEnum<T>)
      return detail::choices_text(names_of(T{}));
    else
      return "map";
  }
  std::vector<FieldDoc> docs_;
};
template <Described T>
std::vector<FieldDoc> describe() {
  T value;
  Describer describer;
  fields(describer, value);
  return describer.take();
}

}  // namespace longbow
