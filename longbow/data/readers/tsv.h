#pragma once
// The table that the Long Range Arena's files are: a header `Source<TAB>Target`, then one sample a
// line.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/core/error.h"

namespace longbow {

struct TsvRow {
  std::string_view source, target;  // into the contents
  int line = 0;
};

// Lines may end in LF or CRLF. A wrong header, a line without exactly two columns and a file
// without samples are UserErrors.
std::vector<TsvRow> parse_table(const std::string& contents, const std::string& path);

// Whole numbers with one blank between them; anything else is a UserError at `place`.
std::vector<int32_t> parse_ids(std::string_view text, const Place& place);

// In quotes, on one line, printable and short, whatever the bytes are.
std::string excerpt(std::string_view text);

}  // namespace longbow
