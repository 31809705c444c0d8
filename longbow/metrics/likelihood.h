#pragma once
// Scores of a language model. Perplexity per token depends on the tokenizer; perplexity per word
// and bits per byte or character do not, and can be compared between tokenizers.
#include <cstdint>

namespace longbow::metrics {

// Sums over a text; those of parts of it are added.
struct LikelihoodSums {
  double negative_log_likelihood = 0;            // in nats, over all predicted tokens
  int64_t tokens = 0;                            // predicted tokens
  int64_t words = 0, bytes = 0, characters = 0;  // of the text that they stand for

  LikelihoodSums& operator+=(const LikelihoodSums& other);
};

// Not a number where what is counted does not occur.
double perplexity_per_token(const LikelihoodSums& sums);
double perplexity_per_word(const LikelihoodSums& sums);
double bits_per_byte(const LikelihoodSums& sums);
double bits_per_character(const LikelihoodSums& sums);

}  // namespace longbow::metrics
