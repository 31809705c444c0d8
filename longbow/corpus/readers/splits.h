#pragma once
// Training, validation and test records out of files that come without such a split.
#include <array>
#include <cstdint>
#include <string_view>

#include "longbow/core/fields.h"
#include "longbow/corpus/readers/record.h"

namespace longbow::corpus {

enum class Side { train, valid, test };
constexpr std::array<std::string_view, 3> names_of(Side) {
  return {"train", "valid", "test"};
}
enum class SplitKey { texts, first_text, id, group };
constexpr std::array<std::string_view, 4> names_of(SplitKey) {
  return {"texts", "first_text", "id", "group"};
}

struct SplitOptions {
  double valid_fraction = 0.1, test_fraction = 0.1;
  SplitKey key = SplitKey::texts;
};
template <class V>
void fields(V& v, SplitOptions& o) {
  v("valid_fraction", o.valid_fraction, "of the records, for validation", range(0, 0.9));
  v("test_fraction", o.test_fraction, "of the records, for the test", range(0, 0.9));
  v("key", o.key,
    "records that agree in this go to the same side: all their texts, the first text (one source "
    "sentence with several translations), the id, the group (title of an article)");
}

// OptionError when the fractions leave nothing for training.
void check_split(const SplitOptions& options);

// The side of a record is a function of the seed and its key: it depends neither on the order nor
// on the number of records, and nothing is held in memory. The fractions are met on average.
class HashSplit {
 public:
  HashSplit(const SplitOptions& options, uint64_t seed);  // OptionError when nothing is left
  Side side(const Record& record) const;                  // UserError when the key is empty

 private:
  SplitOptions options_;
  uint64_t seed_;
};

// The first records for training, the next for validation, the last for the test: by their number
// or by their bytes. `key` has no meaning here.
class OrderedSplit {
 public:
  OrderedSplit(const SplitOptions& options, int64_t total);  // OptionError when nothing is left
  Side side(int64_t position) const;                         // from 0; of a record's beginning
  // The parts of one text of `total` bytes, by side; a cut inside a character moves before it.
  std::array<std::string_view, 3> cut(std::string_view text) const;

 private:
  int64_t valid_, test_;  // where they begin
};

// What OrderedSplit needs to know of a text, which is read to its end.
struct TextSize {
  int64_t lines = 0, bytes = 0;  // bytes unpacked, without a byte order mark
};
TextSize measure(TextFile& file);

}  // namespace longbow::corpus
