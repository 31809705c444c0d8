#pragma once
// Anyone's own table: a CSV or TSV file with a header, a column of texts, a column of labels or
// tags, and perhaps a column of second texts.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/data/readers/source.h"

namespace longbow {

enum class CsvSeparator { automatic, comma, tab, semicolon };
constexpr std::array<std::string_view, 4> names_of(CsvSeparator) {
  return {"automatic", "comma", "tab", "semicolon"};
}
enum class CsvTokens { words, characters, bytes };
constexpr std::array<std::string_view, 3> names_of(CsvTokens) {
  return {"words", "characters", "bytes"};
}
enum class CsvTargets { label, tags, none };
constexpr std::array<std::string_view, 3> names_of(CsvTargets) {
  return {"label", "tags", "none"};
}

struct CsvConfig {
  std::string train = "train.csv", valid = "", test = "";
  double valid_fraction = 0.1, test_fraction = 0.1;
  CsvSeparator separator = CsvSeparator::automatic;
  std::string text = "text", second = "", label = "label";
  CsvTargets targets = CsvTargets::label;
  std::string ignored_tag = "";
  CsvTokens tokens = CsvTokens::words;
  int64_t max_words = 30000, min_count = 1;
};
template <class V>
void fields(V& v, CsvConfig& c) {
  v("train", c.train, "file of the training split, in data.path");
  v("valid", c.valid, "file of the validation split; empty: a fraction of the training file");
  v("test", c.test, "file of the test split; empty: a fraction of the training file");
  v("valid_fraction", c.valid_fraction,
    "of the rows of the training file, chosen by data.seed, where there is no validation file",
    range(0, 0.9));
  v("test_fraction", c.test_fraction, "the same for the test split", range(0, 0.9));
  v("separator", c.separator,
    "between columns; automatic: a tab in files that end in .tsv or .tab, a comma in others");
  v("text", c.text, "name of the column that holds the texts");
  v("second", c.second, "name of a column with a second text for each row; empty: none");
  v("label", c.label, "name of the column that holds the labels or tags");
  v("targets", c.targets,
    "what that column holds: a label for the row; a tag for every word, with blanks between them; "
    "none: it is not read");
  v("ignored_tag", c.ignored_tag, "tag of words that are neither learnt nor scored; empty: none");
  v("tokens", c.tokens, "what a text is split into; words have blanks between them");
  v("max_words", c.max_words, "most frequent words or characters that have an id of their own",
    range(1, 1e6));
  v("min_count", c.min_count, "words or characters that are rarer in the training split have none",
    at_least(1));
}

// A row of a table and the line on which it begins.
struct CsvRow {
  std::vector<std::string> fields;
  int line = 0;
};
// RFC 4180: fields in double quotes may hold separators, line breaks and doubled quotes. Lines may
// end in LF or CRLF, empty lines and a byte order mark are skipped. UserError at `name`:line for a
// quote that is not closed, a row with another number of fields than the first one, and bytes that
// are not UTF-8.
std::vector<CsvRow> parse_csv(std::string_view text, const std::string& name, char separator);

}  // namespace longbow
