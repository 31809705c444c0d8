#pragma once
// WordPiece: the longest token that a word begins with, again and again. A word with a part that no
// token matches is one unknown token.
#include "longbow/text/models/model.h"

namespace longbow {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  size_t max_input_chars_per_word = 100;
};

TokenModelPtr make_word_piece(WordPieceOptions options,
                              const std::vector<VocabularyEntry>& entries);

}  // namespace longbow
