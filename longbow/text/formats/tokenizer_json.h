#pragma once
// Hugging Face's tokenizer.json, version 1.0.
#include <string>

#include "longbow/text/tokenizer/tokenizer.h"

namespace longbow {

// Files without "type" in the model, as older versions wrote them, are read too. Unknown keys,
// components and values are UserErrors with file and line; so is a BPE dropout, because encoding is
// not random here.
Tokenizer parse_tokenizer_json(const std::string& text, const std::string& name);

// Keys in the order of Hugging Face's library, which reads it. A negative indent: one line.
std::string tokenizer_json(const Tokenizer& tokenizer, int indent = 2);

}  // namespace longbow
