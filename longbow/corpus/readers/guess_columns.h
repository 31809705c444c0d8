#pragma once
#include "longbow/corpus/readers/table_options.h"

namespace longbow::corpus {

// Which columns of a table are its texts, its class or its number, by their names and by what the
// first rows hold. UserError when the file cannot be read or no column can be the text or the
// answer.
TableOptions guess_columns(const std::string& path);

}  // namespace longbow::corpus
