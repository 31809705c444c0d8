#pragma once
// Texts in two languages: two files line by line, or two columns of a table.
#include <array>
#include <cstdint>
#include <string_view>

#include "longbow/core/fields.h"
#include "longbow/corpus/readers/record.h"
#include "longbow/corpus/readers/table.h"

namespace longbow::corpus {

enum class LengthUnit { words, characters };
constexpr std::array<std::string_view, 2> names_of(LengthUnit) {
  return {"words", "characters"};
}

struct ParallelOptions {
  bool swap = false;
  Empty empty = Empty::skip;
  LengthUnit length = LengthUnit::words;
  int64_t min_length = 0, max_length = 0;
  double max_ratio = 0;
};
template <class V>
void fields(V& v, ParallelOptions& o) {
  v("swap", o.swap, "exchange the two texts: translate from the second to the first");
  v("empty", o.empty, "pairs of which a side is blank: error, skip the pair, keep it");
  v("length", o.length, "what lengths are counted in; words have blanks between them");
  v("min_length", o.min_length, "pairs with a shorter side are skipped", at_least(0));
  v("max_length", o.max_length, "pairs with a longer side are skipped; 0: no limit", at_least(0));
  v("max_ratio", o.max_ratio,
    "pairs of which one side is more than this many times as long as the other are skipped; 0: no "
    "limit",
    at_least(0));
}

// OptionError for options that leave no pair.
void check_parallel_options(const ParallelOptions& options);

// Line i of one file and line i of the other are a pair. UserError with both counts when one file
// has more lines; the pairs before that have been given.
ReadCounts read_parallel(TextFile& first, TextFile& second, const ParallelOptions& options,
                         const RecordSink& sink);

// The columns `text` and `second` of a table, and `id` if there is one; `empty` is that of
// ParallelOptions.
ReadCounts read_parallel(TextFile& table, const TableOptions& columns,
                         const ParallelOptions& options, const RecordSink& sink);

}  // namespace longbow::corpus
