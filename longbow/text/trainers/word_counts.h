#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/text/components/normalizer.h"
#include "longbow/text/components/pre_tokenizer.h"

namespace longbow {

// The next text of a corpus; false at its end. Called from one thread, so a corpus larger than
// memory can be read as it is counted.
using NextText = std::function<bool(std::string& text)>;

// Gives the words of a text, normalised, to `take`. Called from several threads at once.
using TakeWord = std::function<void(std::string_view word)>;
using SplitWords = std::function<void(std::string_view text, const TakeWord& take)>;

// By the parts of a tokenizer, either of which may be nullptr.
SplitWords split_by(NormalizerPtr normalizer, PreTokenizerPtr pre_tokenizer);

struct WordCount {
  std::string word;
  int64_t count = 0;
  friend bool operator==(const WordCount&, const WordCount&) = default;
};

struct CountingOptions {
  unsigned threads = 0;                          // 0: one per core
  std::function<void(int64_t bytes)> read = {};  // called now and then, from the calling thread
};

// Every distinct word with its count, in the order of the bytes. Empty words do not count. The
// result is the same for any number of threads, and memory grows with the distinct words only.
std::vector<WordCount> count_words(const NextText& next, const SplitWords& split,
                                   const CountingOptions& options = {});

}  // namespace longbow
