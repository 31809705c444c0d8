#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "longbow/text/trainers/word_counts.h"

namespace longbow {

struct ScoredPiece {
  std::string text;
  double score = 0;
};

// What training of a Unigram model starts with: every character, scored by its count, then every
// string of 2 to max_length characters that two different characters follow somewhere in the list
// of distinct words (the end of a word is one), scored by occurrences x length. Best first, at
// most `most` in all; the characters are never cut.
std::vector<ScoredPiece> unigram_seeds(const std::vector<WordCount>& words, int64_t max_length,
                                       int64_t most);

}  // namespace longbow
