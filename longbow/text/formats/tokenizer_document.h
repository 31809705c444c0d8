#pragma once
// tokenizer.json as read: a tree, but for the vocabulary and the merges, of which a tree would take
// some hundred bytes each.
#include <string>
#include <vector>

#include "longbow/core/config.h"
#include "longbow/text/models/bpe.h"
#include "longbow/text/models/unigram.h"
#include "longbow/text/models/vocabulary.h"

namespace longbow {

struct TokenizerDocument {
  Node root;                             // "model" has neither "vocab" nor "merges"
  std::vector<VocabularyEntry> entries;  // of a vocabulary that is an object
  std::vector<UnigramPiece> pieces;      // of a vocabulary that is a list
  std::vector<BpeMerge> merges;          // given as "a b" or as ["a", "b"]
  bool has_entries = false, has_pieces = false, has_merges = false;
};

// UserError with file and line for what is not JSON, too deep or too large.
TokenizerDocument parse_tokenizer_document(const std::string& text, const std::string& name);

}  // namespace longbow
