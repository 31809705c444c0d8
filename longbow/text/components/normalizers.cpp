#include "longbow/text/components/normalizers.h"

#include <algorithm>

#include "longbow/text/components/byte_level.h"
#include "longbow/text/components/pattern.h"
#include "longbow/text/unicode/characters.h"
#include "longbow/text/unicode/normal_form.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

void lowercase(AlignedText& text) {
  TextRewrite rewrite(text);
  const auto old = text.view();
  for (size_t at = 0; at < old.size();) {
    const auto lower = unicode::lowercase(unicode::next_character(old, at));
    rewrite.replace(lower.first);
    if (lower.second) rewrite.insert(lower.second);
  }
  rewrite.finish();
}

namespace {

// Drops the characters that `drop` says, and maps the others.
template <class Drop, class Map>
void filter(AlignedText& text, const Drop& drop, const Map& map) {
  TextRewrite rewrite(text);
  const auto old = text.view();
  for (size_t at = 0; at < old.size();) {
    const auto code = unicode::next_character(old, at);
    if (drop(code))
      rewrite.drop_to(at);
    else
      rewrite.replace(map(code));
  }
  rewrite.finish();
}

struct LowercaseNormalizer : Normalizer {
  void apply(AlignedText& text) const override { lowercase(text); }
  Node node() const override { return component_node("Lowercase"); }
};

struct FormNormalizer : Normalizer {
  explicit FormNormalizer(unicode::NormalForm normal_form) : form(normal_form) {}
  void apply(AlignedText& text) const override {
    if (is_ascii(text.view())) return;
    std::vector<unicode::ChangedCharacter> changed;
    changed.reserve(text.view().size());
    unicode::normalize(text.view(), form, changed);
    TextRewrite rewrite(text);
    for (const auto& next : changed) rewrite.put(next.code, next.change);
    rewrite.finish();
  }
  Node node() const override {
    constexpr const char* kNames[] = {"NFC", "NFD", "NFKC", "NFKD"};
    return component_node(kNames[static_cast<int>(form)]);
  }
  unicode::NormalForm form;
};

struct StripAccents : Normalizer {
  void apply(AlignedText& text) const override {
    filter(text, unicode::is_mark, [](char32_t code) { return code; });
  }
  Node node() const override { return component_node("StripAccents"); }
};

// Control characters of ASCII go, other kinds of space become spaces, as before SentencePiece.
struct Nmt : Normalizer {
  static bool drops(char32_t code) {
    return (code >= 0x01 && code <= 0x08) || code == 0x0b || (code >= 0x0e && code <= 0x1f) ||
           code == 0x7f || code == 0x8f || code == 0x9f;
  }
  static char32_t spaced(char32_t code) {
    const bool is_space = code == 0x09 || code == 0x0a || code == 0x0c || code == 0x0d ||
                          code == 0x1680 || (code >= 0x200b && code <= 0x200f) || code == 0x2028 ||
                          code == 0x2029 || code == 0x2581 || code == 0xfeff || code == 0xfffd;
    return is_space ? U' ' : code;
  }
  void apply(AlignedText& text) const override { filter(text, drops, spaced); }
  Node node() const override { return component_node("Nmt"); }
};

struct StripNormalizer : Normalizer {
  explicit StripNormalizer(ComponentReader& reader)
      : left(reader.boolean("strip_left")), right(reader.boolean("strip_right")) {}
  void apply(AlignedText& text) const override {
    const auto old = text.view();
    size_t begin = 0, end = old.size();
    for (size_t at = 0; left && at < end; begin = at)
      if (!unicode::is_white_space(unicode::next_character(old, at))) break;
    for (size_t at = end; right && at > begin; end = at)
      if (!unicode::is_white_space(unicode::previous_character(old, at))) break;
    if (begin == 0 && end == old.size()) return;
    TextRewrite rewrite(text);
    rewrite.drop_to(begin);
    rewrite.keep_to(end);
    rewrite.drop_to(old.size());
    rewrite.finish();
  }
  Node node() const override {
    return component_node(
        "Strip", {{"strip_left", Node::boolean(left)}, {"strip_right", Node::boolean(right)}});
  }
  bool left, right;
};

struct ReplaceNormalizer : Normalizer {
  explicit ReplaceNormalizer(ComponentReader& reader)
      : pattern(reader, "pattern"), content(reader.string("content")) {}
  void apply(AlignedText& text) const override {
    TextRewrite rewrite(text);
    bool is_changed = false;
    pattern.regex().each_match(text.view(), [&](size_t begin, size_t end) {
      rewrite.keep_to(begin);
      rewrite.drop_to(end);
      rewrite.insert(content);
      is_changed = true;
    });
    if (is_changed) rewrite.finish();
  }
  Node node() const override {
    return component_node("Replace",
                          {{"pattern", pattern.node()}, {"content", Node::string(content)}});
  }
  TextPattern pattern;
  std::string content;
};

struct Prepend : Normalizer {
  explicit Prepend(ComponentReader& reader) : content(reader.string("prepend")) {}
  void apply(AlignedText& text) const override {
    if (text.empty()) return;
    TextRewrite rewrite(text);
    rewrite.prefix(content);
    rewrite.finish();
  }
  Node node() const override {
    return component_node("Prepend", {{"prepend", Node::string(content)}});
  }
  std::string content;
};

struct ByteLevelNormalizer : Normalizer {
  void apply(AlignedText& text) const override {
    TextRewrite rewrite(text);
    const auto old = text.view();
    for (size_t at = 0; at < old.size();) {
      const size_t end = at + unicode::bytes_of(unicode::byte_at(old, at));
      rewrite.replace(spelling_of_byte(unicode::byte_at(old, at)));
      for (++at; at < end; ++at) rewrite.insert(spelling_of_byte(unicode::byte_at(old, at)));
    }
    rewrite.finish();
  }
  Node node() const override { return component_node("ByteLevel"); }
};

struct NormalizerSequence : Normalizer {
  explicit NormalizerSequence(ComponentReader& reader)
      : steps(read_steps(reader, "normalizers", read_normalizer)) {}
  void apply(AlignedText& text) const override {
    for (const auto& step : steps) step->apply(text);
  }
  Node node() const override { return sequence_node("normalizers", steps); }
  std::vector<NormalizerPtr> steps;
};

template <class T>
constexpr auto plain = component_alone<NormalizerPtr, T>;
template <class T>
constexpr auto read = component_with_fields<NormalizerPtr, T>;
template <unicode::NormalForm form>
NormalizerPtr normal(ComponentReader&) {
  return std::make_shared<FormNormalizer>(form);
}

constexpr ComponentRow<NormalizerPtr> kRows[] = {
    {"BertNormalizer", read_bert_normalizer},  {"ByteLevel", plain<ByteLevelNormalizer>},
    {"Lowercase", plain<LowercaseNormalizer>}, {"NFC", normal<unicode::NormalForm::c>},
    {"NFD", normal<unicode::NormalForm::d>},   {"NFKC", normal<unicode::NormalForm::kc>},
    {"NFKD", normal<unicode::NormalForm::kd>}, {"Nmt", plain<Nmt>},
    {"Precompiled", read_precompiled},         {"Prepend", read<Prepend>},
    {"Replace", read<ReplaceNormalizer>},      {"Sequence", read<NormalizerSequence>},
    {"Strip", read<StripNormalizer>},          {"StripAccents", plain<StripAccents>},
};

}  // namespace

NormalizerPtr read_normalizer(const Node& node) {
  return read_component<NormalizerPtr>(node, "normalizer", kRows);
}

}  // namespace longbow
