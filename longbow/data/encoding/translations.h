#pragma once
// Translations in files of their own for each split.
#include "longbow/corpus/readers/parallel.h"
#include "longbow/data/encoding/text_corpus.h"

namespace longbow {

// Where the two texts of each pair are: in two files line by line, or in two columns of one table.
struct PairedFiles {
  std::string first, second = {};     // no second: the first is a table
  corpus::TableOptions columns = {};  // of the table: `text` and `second`
};

// NAME.first and NAME.second for the first of these names that has both; UserError as
// published_file has it.
PairedFiles paired_files(const std::string& set, const std::string& folder,
                         const std::vector<std::string>& names, const std::string& first,
                         const std::string& second);

struct PairedSplits {
  PairedFiles train, valid, test;
};
TextCorpus translation_corpus(const PairedSplits& files, const corpus::ParallelOptions& options);

}  // namespace longbow
