#pragma once
// Tokenizers without training: bytes and characters. Both are a BPE model without merges, so that
// tokenizer.json can hold them and Hugging Face's library reads them.
#include <string>
#include <string_view>
#include <vector>

#include "longbow/text/tokenizer/tokenizer.h"

namespace longbow {

// The id of a byte is the byte itself, as the long-range arena has it; special tokens follow from
// 256 on. Any text, and any bytes that are UTF-8, can be encoded and decoded.
Tokenizer byte_tokenizer(const std::vector<std::string>& special_tokens);

// Special tokens have the first ids; then each character of `alphabet` once, in its order. A
// character that is not there is `unknown`, which must be among the special tokens; when that is
// empty, it is left out.
Tokenizer character_tokenizer(std::string_view alphabet,
                              const std::vector<std::string>& special_tokens,
                              const std::string& unknown);

}  // namespace longbow
