#pragma once
// The rows of a table, whatever its format, cut down to the columns that someone wants.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/corpus/files/text_file.h"

namespace longbow::corpus {

struct Cell {
  std::string_view text;    // holds until the next row
  bool is_missing = false;  // JSON: the object lacks the key
  bool is_number = false;   // JSON: written without quotes
};

class Rows {
 public:
  virtual ~Rows() = default;
  // One cell for each wanted column, in their order; false after the last row.
  virtual bool next(std::vector<Cell>& cells) = 0;
  virtual int64_t line() const = 0;  // on which the last row begins
  // Names that this row could have been asked for.
  virtual std::vector<std::string> known() const = 0;
};

// Fields with a separator between them. With `quotes`, RFC 4180: a field in double quotes may hold
// separators, line breaks and doubled quotes. Empty lines are skipped. Without a header the columns
// are called 1, 2, 3 and so on.
struct DelimitedFormat {
  char separator = ',';
  bool quotes = true;
  bool header = true;
};
std::unique_ptr<Rows> delimited_rows(TextFile& file, const DelimitedFormat& format,
                                     const std::vector<std::string>& wanted);

// Objects, one on each line or in one list. A column is a key, or a dotted path to one:
// labels.label. Null is an empty cell.
struct JsonFormat {
  bool lines = true;
};
std::unique_ptr<Rows> json_rows(TextFile& file, const JsonFormat& format,
                                const std::vector<std::string>& wanted);

}  // namespace longbow::corpus
