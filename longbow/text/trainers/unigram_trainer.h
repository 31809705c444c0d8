#pragma once
// A Unigram language model over pieces (Kudo, 2018, arXiv:1804.10959): many pieces to start with,
// probabilities by expectation maximisation, and between rounds the pieces go that the likelihood
// needs least. The rules are those of Hugging Face's tokenizers.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "longbow/text/trainers/bpe_trainer.h"
#include "longbow/text/trainers/unigram_seeds.h"
#include "longbow/text/trainers/word_counts.h"

namespace longbow {

struct UnigramTrainerOptions {
  int64_t vocabulary = 8000;  // special tokens included
  std::vector<std::string> special_tokens = {};
  std::string unknown_token = {};        // comes first unless it is a special token; empty: none
  std::u32string initial_alphabet = {};  // pieces whatever the texts hold
  double shrinking_factor = 0.75;        // of the pieces that stay in a round
  int64_t sub_iterations = 2;            // of expectation maximisation in a round
  int64_t max_piece_length = 16;         // in characters
  int64_t seed_size = 1'000'000;
  unsigned threads = 0;  // 0: one per core; the result is the same for any number
};

struct TrainedUnigram {
  std::vector<ScoredPiece> pieces;  // special tokens, then by falling score (log probability)
  std::optional<int64_t> unknown_id;
};

// UserError when the vocabulary cannot hold the characters of the words.
TrainedUnigram train_unigram(const std::vector<WordCount>& words,
                             const UnigramTrainerOptions& options,
                             const TrainerProgress& progress = {});

}  // namespace longbow
