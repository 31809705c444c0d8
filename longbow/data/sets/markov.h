#pragma once
// Text-like sequences from a random Markov chain of order two. Every word has a few words that may
// follow it, and every pair of words chooses some of those: so the best loss of a language model is
// known, and so is that of one that sees only the last word.
#include <cstdint>
#include <string>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/data/samples/dataset.h"

namespace longbow {

struct MarkovConfig {
  int64_t train = 10000, valid = 500, test = 500;
  int64_t words = 32;
  int64_t followers = 8, branches = 3;
  int64_t length = 64, length_min = 0;
};
template <class V>
void fields(V& v, MarkovConfig& c) {
  v("train", c.train, "training samples", range(1, 1e8));
  v("valid", c.valid, "validation samples", range(1, 1e8));
  v("test", c.test, "test samples", range(1, 1e8));
  v("words", c.words, "different words", range(2, 256));
  v("followers", c.followers, "words that may follow a word", range(1, 256));
  v("branches", c.branches, "words that may follow a pair of words", range(1, 256));
  v("length", c.length, "words of a sample", range(2, 1e6));
  v("length_min", c.length_min, "fewest words, their number then varies; 0 = always `length`",
    range(0, 1e6));
}

inline constexpr int64_t kMarkovVersion = 1;

// Words count from 0; their token ids from 1.
class MarkovChain {
 public:
  MarkovChain(const MarkovConfig& config, uint64_t seed);
  double probability(int64_t before, int64_t last, int64_t next) const;
  // The distribution of pairs, before · words + last, that the chain keeps; samples start in it.
  std::vector<double> stationary() const;
  int64_t words() const { return words_; }

  struct Branch {
    int64_t word = 0;
    double probability = 0;
  };
  const std::vector<Branch>& branches(int64_t before, int64_t last) const {
    return branches_.at(static_cast<size_t>(before * words_ + last));
  }

 private:
  int64_t words_;
  std::vector<std::vector<Branch>> branches_;  // of each pair
};

// In nats, of the next word: given the last word only, and given all words before it. The latter
// is the lowest loss there is from the third word of a sample on; the second word has the former.
struct MarkovEntropy {
  double given_one = 0, rate = 0;
  // The lowest mean loss over `length` words, of which the first is not predicted.
  double loss(int64_t length) const;
};
MarkovEntropy markov_entropy(const MarkovChain& chain);

Splits make_markov(const MarkovConfig& config, uint64_t seed);
void write_markov(const std::string& dir, const MarkovConfig& config, uint64_t seed);
// `markov_{train,val,test}.txt`: the ids of one sample a line. Needs manifest.json, which says what
// chain they come from; a word that cannot follow is an error.
Splits load_markov(const std::string& dir);

}  // namespace longbow
