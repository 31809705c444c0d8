#pragma once
// Pairs of sequences that have the same hidden topic or not: most tokens of a sequence are words of
// its topic.
#include "longbow/core/fields.h"
#include "longbow/data/readers/generated.h"

namespace longbow {

struct MatchConfig {
  int64_t train = 20000, valid = 2000, test = 2000;
  int64_t topics = 8, words = 8, length = 32, length_min = 0;
  double purity = 0.7;
};
template <class V>
void fields(V& v, MatchConfig& c) {
  v("train", c.train, "training samples", range(1, 1e8));
  v("valid", c.valid, "validation samples", range(1, 1e8));
  v("test", c.test, "test samples", range(1, 1e8));
  v("topics", c.topics, "different topics", range(2, 10000));
  v("words", c.words, "words of a topic", range(1, 10000));
  v("length", c.length, "tokens of a sequence", range(1, 1e6));
  v("length_min", c.length_min, "fewest tokens, their number then varies; 0 = always `length`",
    range(0, 1e6));
  v("purity", c.purity, "least share of the tokens that are words of the topic, above a half",
    range(0.5, 1));
}

// One class a pair: 1 when the topics are the same. Word w of topic t has the id 1 + t·words + w.
Generator match_generator(const MatchConfig& config);

}  // namespace longbow
