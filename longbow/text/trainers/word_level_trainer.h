#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "longbow/text/trainers/word_counts.h"

namespace longbow {

struct WordLevelTrainerOptions {
  int64_t vocabulary = 30000;  // special tokens included
  int64_t min_frequency = 0;
  std::vector<std::string> special_tokens = {};
};

// The tokens by id: special tokens, then the most frequent words, equally frequent ones in the
// order of their bytes.
std::vector<std::string> train_word_level(const std::vector<WordCount>& words,
                                          const WordLevelTrainerOptions& options);

}  // namespace longbow
