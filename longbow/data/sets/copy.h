#pragma once
// Copying: the target is the source. Both end with the same token. It shows whether a decoder
// reads its source by position.
#include "longbow/core/fields.h"
#include "longbow/data/readers/generated.h"

namespace longbow {

struct CopyConfig {
  int64_t train = 20000, valid = 2000, test = 2000;
  int64_t symbols = 64;
  int64_t length = 16, length_min = 4;
};
template <class V>
void fields(V& v, CopyConfig& c) {
  v("train", c.train, "training samples", range(1, 1e8));
  v("valid", c.valid, "validation samples", range(1, 1e8));
  v("test", c.test, "test samples", range(1, 1e8));
  v("symbols", c.symbols, "different symbols", range(1, 1e6));
  v("length", c.length, "most tokens in a source, with its end", range(2, 1e6));
  v("length_min", c.length_min, "fewest tokens in a source, with its end; 0 = length",
    range(0, 1e6));
}

// Ids of both sides: padding 0, begin 1, end 2, symbols from 3 on.
struct CopyIds {
  static constexpr int32_t kBegin = 1, kEnd = 2, kFirst = 3;
};

Generator copy_generator(const CopyConfig& config);

}  // namespace longbow
