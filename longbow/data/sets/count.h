#pragma once
// The share of a marked token among the tokens of a sequence, or how alike the shares of the
// sequences of a pair are.
#include "longbow/core/fields.h"
#include "longbow/data/readers/generated.h"

namespace longbow {

struct CountConfig {
  int64_t train = 20000, valid = 2000, test = 2000;
  int64_t words = 16, length = 32, length_min = 0;
  bool pairs = false;
};
template <class V>
void fields(V& v, CountConfig& c) {
  v("train", c.train, "training samples", range(1, 1e8));
  v("valid", c.valid, "validation samples", range(1, 1e8));
  v("test", c.test, "test samples", range(1, 1e8));
  v("words", c.words, "different tokens beside the marked one", range(1, 60000));
  v("length", c.length, "tokens of a sequence", range(1, 1e6));
  v("length_min", c.length_min, "fewest tokens, their number then varies; 0 = always `length`",
    range(0, 1e6));
  v("pairs", c.pairs, "two sequences; the value is 1 - |share - other share|");
}

// One value a sample, 0..1. The marked token has the id 1.
Generator count_generator(const CountConfig& config);

}  // namespace longbow
