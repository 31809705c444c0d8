#pragma once
// Byte-pair encoding (Sennrich et al., 2016, arXiv:1508.07909): the most frequent pair of symbols
// becomes a symbol of its own, again and again. The rules, ties included, are those of Hugging
// Face's tokenizers. Training for WordPiece is the same with a continuing prefix; only the
// vocabulary is kept. Byte-level training is the same with the 256 byte characters as the initial
// alphabet.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longbow/text/trainers/word_counts.h"

namespace longbow {

// How far a trainer is. It may throw to end the training.
using TrainerProgress = std::function<void(const char* stage, int64_t done, int64_t total)>;

struct BpeTrainerOptions {
  int64_t vocabulary = 30000;  // special tokens and alphabet included; the alphabet is never cut
  int64_t min_frequency = 0;   // of a pair
  std::vector<std::string> special_tokens = {};
  std::optional<int64_t> limit_alphabet = {};  // of equally frequent characters the smaller stay
  std::u32string initial_alphabet = {};        // in the alphabet whatever the texts hold
  std::string continuing_prefix = {};          // on every character of a word but the first
  std::string end_of_word_suffix = {};         // on the last character of a word
  std::optional<int64_t> max_token_length = {};
  // Characters with a prefix or a suffix get their ids in this order, and ties between pairs are
  // broken by ids; those that are not named follow in the order of their bytes.
  std::vector<std::string> first_symbols = {};
};

struct TrainedBpe {
  std::vector<std::string> tokens;                    // by id
  std::vector<std::pair<uint32_t, uint32_t>> merges;  // ids, the first merge first
};

TrainedBpe train_bpe(const std::vector<WordCount>& words, const BpeTrainerOptions& options,
                     const TrainerProgress& progress = {});

}  // namespace longbow
