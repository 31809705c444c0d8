#include "longbow/text/components/pre_tokenizers.h"

#include <algorithm>

#include "longbow/text/components/pattern.h"
#include "longbow/text/unicode/characters.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

const std::vector<std::string> kBehaviors = {"Removed", "Isolated", "MergedWithPrevious",
                                             "MergedWithNext", "Contiguous"};

Node behavior_node(DelimiterBehavior behavior) {
  return Node::string(kBehaviors[static_cast<size_t>(behavior)]);
}

// Pieces between characters that `is_delimiter` finds; the characters themselves as `behavior`
// says.
template <class IsDelimiter>
void split_at(TextPieces& pieces, DelimiterBehavior behavior, const IsDelimiter& is_delimiter) {
  DelimiterSplit parts;
  pieces.split([&](std::string_view text, const auto& emit) {
    parts.clear();
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t start = at;
      if (!is_delimiter(unicode::next_character(text, at))) continue;
      if (begin < start) parts.add(begin, start, false);
      parts.add(start, at, true);
      begin = at;
    }
    if (begin < text.size()) parts.add(begin, text.size(), false);
    parts.emit(behavior, emit);
  });
}

// Runs of characters of one class; those of class 0 are left out, those of class 1 stay alone.
template <class ClassOf>
void split_runs(TextPieces& pieces, const ClassOf& class_of) {
  pieces.split([&](std::string_view text, const auto& emit) {
    size_t begin = 0;
    int last = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t start = at;
      const int next = class_of(unicode::next_character(text, at));
      if (next == last && next != 1) continue;
      if (last != 0) emit(begin, start);
      begin = start;
      last = next;
    }
    if (last != 0) emit(begin, text.size());
  });
}

struct BertPreTokenizer : PreTokenizer {
  void split(TextPieces& pieces) const override {
    split_runs(pieces, [](char32_t code) {
      return unicode::is_white_space(code) ? 0 : unicode::is_punctuation(code) ? 1 : 2;
    });
  }
  Node node() const override { return component_node("BertPreTokenizer"); }
};

struct Whitespace : PreTokenizer {  // \w+|[^\w\s]+
  void split(TextPieces& pieces) const override {
    split_runs(pieces, [](char32_t code) {
      return unicode::is_word(code) ? 2 : unicode::is_white_space(code) ? 0 : 3;
    });
  }
  Node node() const override { return component_node("Whitespace"); }
};

struct WhitespaceSplit : PreTokenizer {
  void split(TextPieces& pieces) const override {
    split_runs(pieces, [](char32_t code) { return unicode::is_white_space(code) ? 0 : 2; });
  }
  Node node() const override { return component_node("WhitespaceSplit"); }
};

struct Punctuation : PreTokenizer {
  explicit Punctuation(ComponentReader& reader)
      : behavior(static_cast<DelimiterBehavior>(reader.choice(
            "behavior", kBehaviors, static_cast<size_t>(DelimiterBehavior::isolated)))) {}
  void split(TextPieces& pieces) const override {
    split_at(pieces, behavior, unicode::is_punctuation);
  }
  Node node() const override {
    return component_node("Punctuation", {{"behavior", behavior_node(behavior)}});
  }
  DelimiterBehavior behavior;
};

struct Digits : PreTokenizer {
  explicit Digits(ComponentReader& reader) : individual(reader.boolean("individual_digits")) {}
  void split(TextPieces& pieces) const override {
    split_at(pieces, individual ? DelimiterBehavior::isolated : DelimiterBehavior::contiguous,
             unicode::is_numeric);
  }
  Node node() const override {
    return component_node("Digits", {{"individual_digits", Node::boolean(individual)}});
  }
  bool individual;
};

struct CharDelimiterSplit : PreTokenizer {
  explicit CharDelimiterSplit(ComponentReader& reader) : delimiter(reader.character("delimiter")) {}
  void split(TextPieces& pieces) const override {
    split_at(pieces, DelimiterBehavior::removed,
             [this](char32_t code) { return code == delimiter; });
  }
  Node node() const override {
    return component_node("CharDelimiterSplit", {{"delimiter", string_of(delimiter)}});
  }
  char32_t delimiter;
};

struct PatternSplit : PreTokenizer {
  explicit PatternSplit(ComponentReader& reader)
      : pattern(reader, "pattern"),
        behavior(static_cast<DelimiterBehavior>(reader.choice("behavior", kBehaviors))),
        invert(reader.boolean("invert")) {}
  void split(TextPieces& pieces) const override {
    DelimiterSplit parts;
    pieces.split([&](std::string_view text, const auto& emit) {
      parts.clear();
      size_t last = 0;
      pattern.regex().each_match(text, [&](size_t begin, size_t end) {
        if (last < begin) parts.add(last, begin, invert);
        parts.add(begin, end, !invert);
        last = end;
      });
      if (last < text.size()) parts.add(last, text.size(), invert);
      parts.emit(behavior, emit);
    });
  }
  Node node() const override {
    return component_node("Split", {{"pattern", pattern.node()},
                                    {"behavior", behavior_node(behavior)},
                                    {"invert", Node::boolean(invert)}});
  }
  TextPattern pattern;
  DelimiterBehavior behavior;
  bool invert;
};

struct PreTokenizerSequence : PreTokenizer {
  explicit PreTokenizerSequence(ComponentReader& reader)
      : steps(read_steps(reader, "pretokenizers", read_pre_tokenizer)) {}
  void split(TextPieces& pieces) const override {
    for (const auto& step : steps) step->split(pieces);
  }
  Node node() const override { return sequence_node("pretokenizers", steps); }
  bool needs_alignment() const override {
    return std::any_of(steps.begin(), steps.end(),
                       [](const auto& step) { return step->needs_alignment(); });
  }
  std::vector<PreTokenizerPtr> steps;
};

template <class T>
constexpr auto plain = component_alone<PreTokenizerPtr, T>;
template <class T>
constexpr auto read = component_with_fields<PreTokenizerPtr, T>;

constexpr ComponentRow<PreTokenizerPtr> kRows[] = {
    {"BertPreTokenizer", plain<BertPreTokenizer>},
    {"ByteLevel", read_byte_level},
    {"CharDelimiterSplit", read<CharDelimiterSplit>},
    {"Digits", read<Digits>},
    {"Metaspace", read_metaspace},
    {"Punctuation", read<Punctuation>},
    {"Sequence", read<PreTokenizerSequence>},
    {"Split", read<PatternSplit>},
    {"Whitespace", plain<Whitespace>},
    {"WhitespaceSplit", plain<WhitespaceSplit>},
};

}  // namespace

PreTokenizerPtr read_pre_tokenizer(const Node& node) {
  return read_component<PreTokenizerPtr>(node, "pre_tokenizer", kRows);
}

}  // namespace longbow
