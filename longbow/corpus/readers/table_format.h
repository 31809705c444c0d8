#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/corpus/readers/rows.h"
#include "longbow/corpus/readers/table_options.h"

namespace longbow::corpus {

// The format that a name and the first text of a file suggest; never automatic.
TableFormat format_of(const std::string& name, std::string_view text);

// The separator that is most frequent in the first line, outside of quotes.
char separator_in(std::string_view text);

// The wanted columns of a table in the format that the options name, or in the one that it has.
std::unique_ptr<Rows> open_rows(TextFile& file, const TableOptions& options,
                                const std::vector<std::string>& wanted);

}  // namespace longbow::corpus
