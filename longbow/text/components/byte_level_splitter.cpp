// GPT-2's pre-tokenizer. Its pattern,
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// is matched by hand: it sees every byte of every text, and the first character of a word decides.
#include <array>

#include "longbow/text/components/byte_level.h"
#include "longbow/text/components/pre_tokenizers.h"
#include "longbow/text/unicode/characters.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

enum class Kind : unsigned char { letter, number, space, other };

Kind kind_of_any(char32_t code) {
  if (unicode::is_letter(code)) return Kind::letter;
  if (unicode::is_numeric(code)) return Kind::number;
  return unicode::is_white_space(code) ? Kind::space : Kind::other;
}

Kind kind_of(char32_t code) {
  static const auto kAscii = [] {
    std::array<Kind, 128> kinds{};
    for (char32_t c = 0; c < 128; ++c) kinds[c] = kind_of_any(c);
    return kinds;
  }();
  return code < kAscii.size() ? kAscii[code] : kind_of_any(code);
}

// Behind the run of characters of one kind that begins at `at`.
size_t run_end(std::string_view text, size_t at, Kind kind) {
  while (at < text.size()) {
    size_t next = at;
    if (kind_of(unicode::next_character(text, next)) != kind) break;
    at = next;
  }
  return at;
}

size_t contraction_end(std::string_view text, size_t at) {
  for (const std::string_view tail : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.substr(at, tail.size()) == tail) return at + tail.size();
  return at;
}

// All of the white space but its last character, which goes with the word behind it, if any.
size_t space_end(std::string_view text, size_t at) {
  const size_t end = run_end(text, at, Kind::space);
  if (end == text.size()) return end;
  size_t last = end;
  unicode::previous_character(text, last);
  return last > at ? last : end;
}

size_t word_end(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    const size_t end = contraction_end(text, at);
    if (end > at) return end;
  }
  size_t next = at;
  auto kind = kind_of(unicode::next_character(text, next));
  if (text[at] == ' ' && next < text.size()) {
    size_t behind = next;
    const auto after = kind_of(unicode::next_character(text, behind));
    if (after != Kind::space) {
      kind = after;
      next = behind;
    }
  }
  return kind == Kind::space ? space_end(text, at) : run_end(text, next, kind);
}

class ByteLevelSplitter : public PreTokenizer {
 public:
  explicit ByteLevelSplitter(ComponentReader& reader) : options_(reader) {}

  void split(TextPieces& pieces) const override {
    if (options_.add_prefix_space)
      pieces.rewrite([&](TextRewrite& writer, const TextPiece& piece, const auto&) {
        if (pieces.text.view()[piece.begin] != ' ') writer.prefix(" ");
      });
    const auto old = pieces.text.view();
    pieces.rewrite([&](TextRewrite& writer, const TextPiece& piece, const auto& emit) {
      const auto text = old.substr(0, piece.end);
      for (size_t at = piece.begin; at < piece.end; emit()) {
        const size_t end = options_.use_regex ? word_end(text, at) : piece.end;
        spell(writer, text, at, end);
        at = end;
      }
    });
  }

  Node node() const override { return options_.node(); }

 private:
  static void spell(TextRewrite& writer, std::string_view text, size_t at, size_t end) {
    while (at < end) {
      const auto first = unicode::byte_at(text, at);
      const size_t next = at + unicode::bytes_of(first);
      writer.replace(spelling_of_byte(first));
      for (++at; at < next; ++at) writer.insert(spelling_of_byte(unicode::byte_at(text, at)));
    }
  }

  ByteLevelOptions options_;
};

}  // namespace

ByteLevelOptions::ByteLevelOptions(ComponentReader& reader)
    : add_prefix_space(reader.boolean("add_prefix_space")),
      trim_offsets(reader.boolean("trim_offsets")),
      use_regex(reader.boolean("use_regex", true)) {}

Node ByteLevelOptions::node() const {
  return component_node("ByteLevel", {{"add_prefix_space", Node::boolean(add_prefix_space)},
                                      {"trim_offsets", Node::boolean(trim_offsets)},
                                      {"use_regex", Node::boolean(use_regex)}});
}

PreTokenizerPtr read_byte_level(ComponentReader& reader) {
  return std::make_shared<ByteLevelSplitter>(reader);
}

}  // namespace longbow
