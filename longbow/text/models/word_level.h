#pragma once
// WordLevel: a word is a token or unknown.
#include "longbow/text/models/model.h"

namespace longbow {

TokenModelPtr make_word_level(std::string unk_token, const std::vector<VocabularyEntry>& entries);

}  // namespace longbow
