#include "longbow/text/components/post_processors.h"

#include <algorithm>
#include <limits>

#include "longbow/text/components/byte_level.h"
#include "longbow/text/components/pre_tokenizers.h"
#include "longbow/text/unicode/characters.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {

int32_t read_token_id(ComponentReader& reader, const Node& node) {
  const auto id = as_integer(node, reader.name_of("id"));
  if (id < 0 || id > std::numeric_limits<int32_t>::max())
    reader.fail(node, "an id must be from 0 to 2147483647");
  return static_cast<int32_t>(id);
}

namespace {

NamedToken read_named_token(ComponentReader& reader, const char* field) {
  const auto& node = reader.need(field);
  if (!node.is_list() || node.items.size() != 2)
    reader.fail(node, std::string(field) + " must be [token, id]");
  return {as_string(node.items[0], reader.name_of(field)), read_token_id(reader, node.items[1])};
}

Node named_token_node(const NamedToken& token) {
  return Node::list({Node::string(token.text), Node::integer(token.id)});
}

// Applies to a text and to what overflows of it.
template <class Act>
void each_part(Encoding& text, const Act& act) {
  act(text);
  for (auto& part : text.overflowing) act(part);
}

void surround(Encoding& text, const NamedToken* before, const NamedToken& after, int32_t type_id) {
  each_part(text, [&](Encoding& part) {
    Encoding out;
    out.reserve(part.size() + 2);
    if (before) out.add_special(before->id, before->text, type_id);
    auto overflowing = std::move(part.overflowing);
    part.overflowing.clear();
    part.set_type(type_id);
    out.append(std::move(part));
    out.add_special(after.id, after.text, type_id);
    part = std::move(out);
    part.overflowing = std::move(overflowing);
  });
}

struct BertProcessing : PostProcessor {
  explicit BertProcessing(ComponentReader& reader)
      : sep(read_named_token(reader, "sep")), cls(read_named_token(reader, "cls")) {}
  size_t added_tokens(bool is_pair) const override { return is_pair ? 3 : 2; }
  void process(std::vector<Encoding>& parts, bool add_special_tokens) const override {
    if (!add_special_tokens) return;
    for (size_t i = 0; i < parts.size(); ++i)
      surround(parts[i], i == 0 ? &cls : nullptr, sep, i == 0 ? 0 : 1);
  }
  Node node() const override {
    return component_node("BertProcessing",
                          {{"sep", named_token_node(sep)}, {"cls", named_token_node(cls)}});
  }
  NamedToken sep, cls;
};

size_t count_spaces(std::string_view token, bool from_end) {
  static const char32_t kSpace = character_of_byte(' ');
  size_t count = 0;
  for (size_t at = from_end ? token.size() : 0; from_end ? at > 0 : at < token.size(); ++count) {
    const auto code =
        from_end ? unicode::previous_character(token, at) : unicode::next_character(token, at);
    if (code != kSpace && !unicode::is_white_space(code)) break;
  }
  return count;
}

// Offsets without the spaces that a token of the byte-level alphabet has around it. A space that
// was put before the first word has no place in the text.
void trim_offsets(Encoding& text, bool add_prefix_space) {
  for (size_t i = 0; i < text.size(); ++i) {
    auto& place = text.offsets[i];
    auto leading = static_cast<uint32_t>(count_spaces(text.tokens[i], false));
    const auto trailing = static_cast<uint32_t>(count_spaces(text.tokens[i], true));
    if (leading == 1 && add_prefix_space && (i == 0 || place.begin == 0)) leading = 0;
    place.begin = std::min(place.begin + leading, place.end);
    if (trailing > 0 && place.end >= trailing)
      place.end = std::max(place.end - trailing, place.begin);
  }
}

struct RobertaProcessing : PostProcessor {
  explicit RobertaProcessing(ComponentReader& reader)
      : sep(read_named_token(reader, "sep")),
        cls(read_named_token(reader, "cls")),
        trims(reader.boolean("trim_offsets", true)),
        add_prefix_space(reader.boolean("add_prefix_space", true)) {}
  size_t added_tokens(bool is_pair) const override { return is_pair ? 4 : 2; }
  void process(std::vector<Encoding>& parts, bool add_special_tokens) const override {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (trims)
        each_part(parts[i], [this](Encoding& part) { trim_offsets(part, add_prefix_space); });
      parts[i].set_type(0);
      if (add_special_tokens) surround(parts[i], i == 0 ? &cls : &sep, sep, 0);
    }
  }
  Node node() const override {
    return component_node("RobertaProcessing",
                          {{"sep", named_token_node(sep)},
                           {"cls", named_token_node(cls)},
                           {"trim_offsets", Node::boolean(trims)},
                           {"add_prefix_space", Node::boolean(add_prefix_space)}});
  }
  NamedToken sep, cls;
  bool trims, add_prefix_space;
};

struct ByteLevelProcessing : PostProcessor {
  explicit ByteLevelProcessing(ComponentReader& reader) : options(reader) {}
  size_t added_tokens(bool) const override { return 0; }
  void process(std::vector<Encoding>& parts, bool) const override {
    if (!options.trim_offsets) return;
    for (auto& text : parts)
      each_part(text, [this](Encoding& part) { trim_offsets(part, options.add_prefix_space); });
  }
  Node node() const override { return options.node(); }
  ByteLevelOptions options;
};

struct PostProcessorSequence : PostProcessor {
  explicit PostProcessorSequence(ComponentReader& reader)
      : steps(read_steps(reader, "processors", read_post_processor)) {}
  size_t added_tokens(bool is_pair) const override {
    size_t count = 0;
    for (const auto& step : steps) count += step->added_tokens(is_pair);
    return count;
  }
  void process(std::vector<Encoding>& parts, bool add_special_tokens) const override {
    for (const auto& step : steps) step->process(parts, add_special_tokens);
  }
  Node node() const override { return sequence_node("processors", steps); }
  std::vector<PostProcessorPtr> steps;
};

template <class T>
constexpr auto read = component_with_fields<PostProcessorPtr, T>;

constexpr ComponentRow<PostProcessorPtr> kRows[] = {
    {"BertProcessing", read<BertProcessing>},         {"ByteLevel", read<ByteLevelProcessing>},
    {"RobertaProcessing", read<RobertaProcessing>},   {"Sequence", read<PostProcessorSequence>},
    {"TemplateProcessing", read_template_processing},
};

}  // namespace

PostProcessorPtr read_post_processor(const Node& node) {
  return read_component<PostProcessorPtr>(node, "post_processor", kRows);
}

}  // namespace longbow
