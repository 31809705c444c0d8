#pragma once
// SentencePiece's `.model`: a protocol buffer with pieces, their scores and how text is normalized.
// Read as a tokenizer of the same parts as tokenizer.json has, so it can be written as one.
#include <string>

#include "longbow/text/tokenizer/tokenizer.h"

namespace longbow {

// Models of type unigram, bpe and char. Encoding gives SentencePiece's ids; special tokens in a
// text are plain text to SentencePiece, so pass SpecialText::plain for that. A text that is a
// user-defined symbol and nothing else is that symbol alone, where SentencePiece may put the mark
// of a space before it. A UserError that names the file for what is cut off or not supported.
Tokenizer parse_sentencepiece(const std::string& bytes, const std::string& name);

}  // namespace longbow
