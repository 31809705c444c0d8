#include "longbow/core/config.h"
#include "longbow/core/scalar.h"
#include "longbow/core/utf8.h"

namespace longbow {
namespace {

class JsonWriter {
 public:
  explicit JsonWriter(int indent) : indent_(indent) {}

  void write(const Node& node, int level) {
    if (node.is_null()) out += "null";
    if (node.is_scalar()) out += scalar(node);
    if (node.is_list())
      write_all(node.items, level, '[', ']', [&](const Node& item) { write(item, level + 1); });
    if (node.is_map())
      write_all(node.entries, level, '{', '}', [&](const auto& entry) {
        out += string_literal(entry.first) + (indent_ < 0 ? ":" : ": ");
        write(entry.second, level + 1);
      });
  }

  std::string out;

 private:
  static std::string scalar(const Node& node) {
    bool bare = !node.quoted && (is_boolean_word(node.text) || is_json_number(node.text));
    return bare ? node.text : string_literal(node.text);
  }

  void break_line(int level) {
    if (indent_ >= 0) out += "\n" + std::string(static_cast<size_t>(indent_ * level), ' ');
  }

  template <class Items, class Write>
  void write_all(const Items& items, int level, char begin, char end, const Write& write_item) {
    out += begin;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += ',';
      break_line(level + 1);
      write_item(items[i]);
    }
    if (!items.empty()) break_line(level);
    out += end;
  }

  int indent_;
};

}  // namespace

std::string to_json(const Node& node, int indent) {
  JsonWriter writer(indent);
  writer.write(node, 0);
  return std::move(writer.out);
}

}  // namespace longbow
