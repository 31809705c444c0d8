// SentencePiece's way with spaces: they become U+2581, and a word begins with its own.
#include <algorithm>

#include "longbow/core/utf8.h"
#include "longbow/text/components/pre_tokenizers.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(ComponentReader& reader) : options_(reader) {
    append_utf8(mark_, options_.replacement);
  }

  void split(TextPieces& pieces) const override {
    const auto old = pieces.text.view();
    pieces.rewrite([&](TextRewrite& writer, const TextPiece& piece, const auto&) {
      if (needs_mark(pieces, piece)) writer.prefix(mark_);
      for (size_t at = piece.begin; at < piece.end;) {
        const size_t space = std::min<size_t>(old.find(' ', at), piece.end);
        writer.keep_to(space);
        if (space < piece.end) writer.replace(mark_);
        at = space + 1;
      }
    });
    if (!options_.split) return;
    DelimiterSplit parts;
    pieces.split([&](std::string_view text, const auto& emit) {
      parts.clear();
      size_t begin = 0;
      for (size_t at = text.find(mark_); at != text.npos; at = text.find(mark_, begin)) {
        if (begin < at) parts.add(begin, at, false);
        begin = at + mark_.size();
        parts.add(at, begin, true);
      }
      if (begin < text.size()) parts.add(begin, text.size(), false);
      parts.emit(DelimiterBehavior::merged_with_next, emit);
    });
  }

  Node node() const override { return options_.node(); }
  bool needs_alignment() const override { return options_.prepend_scheme == PrependScheme::first; }

 private:
  bool needs_mark(const TextPieces& pieces, const TextPiece& piece) const {
    if (options_.prepend_scheme == PrependScheme::never) return false;
    const auto text = pieces.view(piece);
    if (text.starts_with(' ') || text.starts_with(mark_)) return false;
    return options_.prepend_scheme == PrependScheme::always || pieces.is_first(piece);
  }

  MetaspaceOptions options_;
  std::string mark_;
};

}  // namespace

MetaspaceOptions::MetaspaceOptions(ComponentReader& reader)
    : replacement(reader.character("replacement")) {
  const auto add_prefix_space = reader.optional_boolean("add_prefix_space");  // older files
  const auto scheme = reader.choice("prepend_scheme", {"first", "never", "always"},
                                    static_cast<size_t>(PrependScheme::always));
  prepend_scheme = static_cast<PrependScheme>(scheme);
  if (add_prefix_space == false && !reader.find("prepend_scheme"))
    prepend_scheme = PrependScheme::never;
  if (add_prefix_space == false && prepend_scheme != PrependScheme::never)
    reader.fail(reader.need("add_prefix_space"), "add_prefix_space contradicts prepend_scheme");
  split = reader.boolean("split", true);
  reader.find("str_rep");  // older files repeat the replacement
}

Node MetaspaceOptions::node() const {
  constexpr const char* kSchemes[] = {"first", "never", "always"};
  return component_node(
      "Metaspace", {{"replacement", string_of(replacement)},
                    {"prepend_scheme", Node::string(kSchemes[static_cast<int>(prepend_scheme)])},
                    {"split", Node::boolean(split)}});
}

PreTokenizerPtr read_metaspace(ComponentReader& reader) {
  return std::make_shared<Metaspace>(reader);
}

}  // namespace longbow
