#pragma once
// Pre-tokenizers of tokenizer.json: BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits,
// Metaspace, Punctuation, Sequence, Split, Whitespace, WhitespaceSplit.
#include "longbow/text/components/component.h"
#include "longbow/text/components/pre_tokenizer.h"

namespace longbow {

// nullptr for null. An unknown type, field or value is a UserError at its place.
PreTokenizerPtr read_pre_tokenizer(const Node& node);

// Those with a file of their own.
PreTokenizerPtr read_byte_level(ComponentReader& reader);
PreTokenizerPtr read_metaspace(ComponentReader& reader);

enum class PrependScheme { first, never, always };
struct MetaspaceOptions {
  explicit MetaspaceOptions(ComponentReader& reader);
  Node node() const;
  char32_t replacement;
  PrependScheme prepend_scheme;
  bool split;
};
struct ByteLevelOptions {
  explicit ByteLevelOptions(ComponentReader& reader);
  Node node() const;
  bool add_prefix_space, trim_offsets, use_regex;
};

}  // namespace longbow
