#pragma once
// Tables: CSV, TSV, JSON lines, or a list of JSON objects. Options name the columns.
#include "longbow/corpus/readers/record.h"
#include "longbow/corpus/readers/table_options.h"

namespace longbow::corpus {

// OptionError for options that no table can be read with.
void check_table_options(const TableOptions& options);

// Classes as numbers in JSON lose their fraction when it is zero: 1.0 is the class 1.
ReadCounts read_table(TextFile& file, const TableOptions& options, const RecordSink& sink);

}  // namespace longbow::corpus
