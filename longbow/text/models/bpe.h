#pragma once
// Byte-pair encoding: a word begins as its characters; of all neighbours that can be merged, the
// pair that comes first in the list of merges is, until none is left.
#include <optional>
#include <utility>

#include "longbow/text/models/model.h"

namespace longbow {

struct BpeOptions {
  std::optional<std::string> unk_token;  // none: unknown characters are left out
  std::optional<std::string> continuing_subword_prefix, end_of_word_suffix;
  bool fuse_unk = false;       // unknown characters in a row are one token
  bool byte_fallback = false;  // unknown characters are the tokens <0x00> to <0xFF>
  bool ignore_merges = false;  // a word that is a token is that token
};

using BpeMerge = std::pair<std::string, std::string>;

// UserError without a place: a merge with a part or a result that is not in the vocabulary.
TokenModelPtr make_bpe(BpeOptions options, const std::vector<VocabularyEntry>& entries,
                       const std::vector<BpeMerge>& merges);

}  // namespace longbow
