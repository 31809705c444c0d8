// A template says what stands where: special tokens, the first text, the second text.
#include <map>

#include "longbow/text/components/post_processors.h"

namespace longbow {
namespace {

struct TemplatePart {
  enum class Kind { first, second, special } kind;
  std::string name;
  int32_t type_id;
};

using SpecialTokens = std::map<std::string, std::vector<NamedToken>>;

SpecialTokens read_special_tokens(ComponentReader& reader) {
  SpecialTokens out;
  const auto& node = reader.need("special_tokens");
  if (!node.is_map()) reader.fail(node, "special_tokens must be an object");
  for (const auto& [name, entry] : node.entries) {
    const auto *ids = entry.find("ids"), *tokens = entry.find("tokens");
    const bool fits = ids && tokens && ids->is_list() && tokens->is_list() &&
                      ids->items.size() == tokens->items.size();
    if (!fits) reader.fail(entry, "special token " + quote(name) + " needs as many ids as tokens");
    auto& list = out[name];
    for (size_t i = 0; i < ids->items.size(); ++i)
      list.push_back({as_string(tokens->items[i], reader.name_of("tokens")),
                      read_token_id(reader, ids->items[i])});
  }
  return out;
}

TemplatePart read_part(ComponentReader& reader, const Node& node, const SpecialTokens& special) {
  const bool fits = node.is_map() && node.entries.size() == 1 && node.entries[0].second.is_map();
  const auto* id = fits ? node.entries[0].second.find("id") : nullptr;
  const auto* type = fits ? node.entries[0].second.find("type_id") : nullptr;
  if (!id || !type)
    reader.fail(node, "a part must be {\"Sequence\"|\"SpecialToken\": {id, type_id}}");
  const auto name = as_string(*id, reader.name_of("id"));
  const auto type_id = read_token_id(reader, *type);
  const auto& kind = node.entries[0].first;
  if (kind == "Sequence" && name == "A") return {TemplatePart::Kind::first, name, type_id};
  if (kind == "Sequence" && name == "B") return {TemplatePart::Kind::second, name, type_id};
  if (kind != "SpecialToken") reader.fail(node, "unknown part " + quote(kind) + " " + quote(name));
  if (!special.contains(name)) reader.fail(node, quote(name) + " is not among its special_tokens");
  return {TemplatePart::Kind::special, name, type_id};
}

class TemplateProcessing : public PostProcessor {
 public:
  explicit TemplateProcessing(ComponentReader& reader)
      : special_(read_special_tokens(reader)),
        single_(read_parts(reader, "single")),
        pair_(read_parts(reader, "pair")) {
    for (const auto& part : single_)
      if (part.kind == TemplatePart::Kind::second)
        reader.fail(reader.need("single"), "single has a second text");
  }

  size_t added_tokens(bool is_pair) const override {
    size_t count = 0;
    for (const auto& part : is_pair ? pair_ : single_)
      if (part.kind == TemplatePart::Kind::special) count += special_.at(part.name).size();
    return count;
  }

  void process(std::vector<Encoding>& texts, bool add_special_tokens) const override {
    if (texts.size() > 2) throw UserError("TemplateProcessing must come first in its Sequence");
    std::vector<Encoding> out;
    for (const auto& part : texts.size() == 2 ? pair_ : single_) {
      if (part.kind == TemplatePart::Kind::special) {
        if (add_special_tokens) out.push_back(special(part));
        continue;
      }
      auto& text = texts[part.kind == TemplatePart::Kind::second];
      text.set_type(part.type_id);
      out.push_back(text);
    }
    texts = std::move(out);
  }

  Node node() const override {
    auto special = Node::map();
    for (const auto& [name, tokens] : special_) {
      auto ids = Node::list(), texts = Node::list();
      for (const auto& token : tokens) {
        ids.items.push_back(Node::integer(token.id));
        texts.items.push_back(Node::string(token.text));
      }
      special.entries.emplace_back(
          name, Node::map({{"id", Node::string(name)}, {"ids", ids}, {"tokens", texts}}));
    }
    return component_node("TemplateProcessing", {{"single", parts_node(single_)},
                                                 {"pair", parts_node(pair_)},
                                                 {"special_tokens", std::move(special)}});
  }

 private:
  std::vector<TemplatePart> read_parts(ComponentReader& reader, const char* field) const {
    const auto& list = reader.need(field);
    if (!list.is_list()) reader.fail(list, std::string(field) + " must be a list");
    std::vector<TemplatePart> parts;
    for (const auto& item : list.items) parts.push_back(read_part(reader, item, special_));
    return parts;
  }

  static Node parts_node(const std::vector<TemplatePart>& parts) {
    auto list = Node::list();
    for (const auto& part : parts) {
      const bool is_special = part.kind == TemplatePart::Kind::special;
      auto inner =
          Node::map({{"id", Node::string(part.name)}, {"type_id", Node::integer(part.type_id)}});
      list.items.push_back(
          Node::map({{is_special ? "SpecialToken" : "Sequence", std::move(inner)}}));
    }
    return list;
  }

  Encoding special(const TemplatePart& part) const {
    Encoding out;
    for (const auto& token : special_.at(part.name))
      out.add_special(token.id, token.text, part.type_id);
    return out;
  }

  SpecialTokens special_;
  std::vector<TemplatePart> single_, pair_;
};

}  // namespace

PostProcessorPtr read_template_processing(ComponentReader& reader) {
  return std::make_shared<TemplateProcessing>(reader);
}

}  // namespace longbow
