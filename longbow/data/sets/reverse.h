#pragma once
// Reversal: the target is the source from its end to its beginning, in a vocabulary of its own. The
// smallest translation: one target token depends on one source token, and the order does not help.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/data/samples/dataset.h"

namespace longbow {

struct ReverseConfig {
  int64_t train = 20000, valid = 2000, test = 2000;
  int64_t symbols = 16;
  int64_t length = 16, length_min = 4;
};
template <class V>
void fields(V& v, ReverseConfig& c) {
  v("train", c.train, "training samples", range(1, 1e8));
  v("valid", c.valid, "validation samples", range(1, 1e8));
  v("test", c.test, "test samples", range(1, 1e8));
  v("symbols", c.symbols, "different symbols", range(1, 60000));
  v("length", c.length, "most symbols in a source", range(1, 1e6));
  v("length_min", c.length_min, "fewest symbols in a source", range(1, 1e6));
}

inline constexpr int64_t kReverseVersion = 1;

// Source ids: padding 0, symbols from 1 on. Target ids: padding 0, begin 1, end 2, symbols from 3
// on.
struct ReverseIds {
  static constexpr int64_t kBegin = 1, kEnd = 2;
  static constexpr int64_t source(int64_t symbol) { return 1 + symbol; }
  static constexpr int64_t target(int64_t symbol) { return 3 + symbol; }
};

Splits make_reverse(const ReverseConfig& config, uint64_t seed);
void write_reverse(const std::string& dir, const ReverseConfig& config, uint64_t seed);
// `reverse_{train,val,test}.tsv`: ids of the source, ids of the target with its end. Needs
// manifest.json, which says how many symbols there are; recomputes every target.
Splits load_reverse(const std::string& dir);

// The target of a source, with its end; tokens that are no symbols are a UserError at `place`.
std::vector<int32_t> reversed_target(std::span<const int32_t> source, int64_t symbols,
                                     const Place& place);

}  // namespace longbow
