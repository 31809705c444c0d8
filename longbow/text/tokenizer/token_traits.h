#pragma once
// What a token stands for in a text.
#include <cstdint>
#include <vector>

#include "longbow/text/tokenizer/tokenizer.h"

namespace longbow {

struct TokenTraits {
  bool special = false;  // [CLS] and the like: no part of any word
  bool begins = false;   // a word begins with it, always
  bool ends = false;     // a word ends with it, always: the next token begins one
  int64_t bytes = 0;     // that it adds to a text after another token
};

// By id. A tokenizer with tokens for parts of words marks them: ##ing or low</w>, or words that
// begin with their white space. One without marks has a word for a token.
std::vector<TokenTraits> token_traits(const Tokenizer& tokenizer);

}  // namespace longbow
