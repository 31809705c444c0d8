#pragma once
#include <optional>
#include <string>

#include "longbow/text/tokenizer/tokenizer.h"

namespace longbow {

struct ReadTokenizerOptions {
  // For BERT's vocab.txt. None: what "do_lower_case" of a tokenizer_config.json beside it says,
  // else true.
  std::optional<bool> lowercase;
};

// A tokenizer.json, a SentencePiece .model, a vocab.txt or a vocab.json with the merges.txt beside
// it; or a folder with one of these, of which the first in this order is read.
Tokenizer read_tokenizer(const std::string& path_or_folder,
                         const ReadTokenizerOptions& options = {});

void write_tokenizer(const Tokenizer& tokenizer, const std::string& path);  // tokenizer.json

}  // namespace longbow
