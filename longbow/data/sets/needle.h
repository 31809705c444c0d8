#pragma once
// A span to be found: a marker stands somewhere, and the answer words that follow it are the span.
#include "longbow/core/fields.h"
#include "longbow/data/readers/generated.h"

namespace longbow {

struct NeedleConfig {
  int64_t train = 20000, valid = 2000, test = 2000;
  int64_t words = 16, answers = 8, length = 32, length_min = 0, width = 4;
  double noise = 0.1;
};
template <class V>
void fields(V& v, NeedleConfig& c) {
  v("train", c.train, "training samples", range(1, 1e8));
  v("valid", c.valid, "validation samples", range(1, 1e8));
  v("test", c.test, "test samples", range(1, 1e8));
  v("words", c.words, "different filler words", range(1, 30000));
  v("answers", c.answers, "different answer words", range(1, 30000));
  v("length", c.length, "tokens of a sequence", range(2, 1e6));
  v("length_min", c.length_min, "fewest tokens, their number then varies; 0 = always `length`",
    range(0, 1e6));
  v("width", c.width, "most answer words after the marker", range(1, 1e6));
  v("noise", c.noise, "share of the tokens elsewhere that are answer words too", range(0, 1));
}

// Two targets a sample: the first and the last place of the span. The marker has the id 1, filler
// words follow, then answer words.
Generator needle_generator(const NeedleConfig& config);

}  // namespace longbow
