// BERT's clean-up: control characters go, any space is a space, ideographs get spaces around them,
// accents and case may go.
#include "longbow/text/components/normalizers.h"
#include "longbow/text/unicode/characters.h"
#include "longbow/text/unicode/normal_form.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(ComponentReader& reader)
      : clean_text_(reader.boolean("clean_text", true)),
        handle_chinese_chars_(reader.boolean("handle_chinese_chars", true)),
        strip_accents_(reader.optional_boolean("strip_accents")),
        lowercase_(reader.boolean("lowercase", true)) {}

  void apply(AlignedText& text) const override {
    // ASCII is lowered on the way; it takes no part in what the other steps do.
    const bool is_plain = clean(text);
    if (is_plain) return;
    if (strip_accents_.value_or(lowercase_)) strip_accents(text);
    if (lowercase_) longbow::lowercase(text);
  }

  Node node() const override {
    return component_node(
        "BertNormalizer",
        {{"clean_text", Node::boolean(clean_text_)},
         {"handle_chinese_chars", Node::boolean(handle_chinese_chars_)},
         {"strip_accents", strip_accents_ ? Node::boolean(*strip_accents_) : Node()},
         {"lowercase", Node::boolean(lowercase_)}});
  }

 private:
  // True when no other step has anything to do.
  bool clean(AlignedText& text) const {
    TextRewrite rewrite(text);
    const auto old = text.view();
    bool is_plain = true;
    for (size_t at = 0; at < old.size();) {
      const auto code = unicode::next_character(old, at);
      if (clean_text_ && (code == 0 || code == 0xfffd || unicode::is_control(code))) {
        rewrite.drop_to(at);
      } else if (clean_text_ && unicode::is_white_space(code)) {
        rewrite.replace(U' ');
      } else if (code < 0x80) {
        rewrite.replace(lowercase_ ? unicode::lowercase(code).first : code);
      } else if (handle_chinese_chars_ && unicode::is_cjk(code)) {
        rewrite.replace(U' ');
        rewrite.insert(code);
        rewrite.insert(U' ');
        is_plain &= unicode::is_inert(code, unicode::NormalForm::d);
      } else {
        rewrite.keep_to(at);
        is_plain = false;
      }
    }
    rewrite.finish();
    return is_plain;
  }

  static void strip_accents(AlignedText& text) {
    std::vector<unicode::ChangedCharacter> changed;
    changed.reserve(text.view().size());
    unicode::normalize(text.view(), unicode::NormalForm::d, changed);
    TextRewrite rewrite(text);
    for (const auto& next : changed) {
      if (!unicode::is_nonspacing_mark(next.code))
        rewrite.put(next.code, next.change);
      else if (next.change <= 0)
        rewrite.drop_character();
    }
    rewrite.finish();
  }

  bool clean_text_, handle_chinese_chars_;
  std::optional<bool> strip_accents_;
  bool lowercase_;
};

}  // namespace

NormalizerPtr read_bert_normalizer(ComponentReader& reader) {
  return std::make_shared<BertNormalizer>(reader);
}

}  // namespace longbow
