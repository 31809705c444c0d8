#pragma once
// What a model must know of its data to be asked without it. A run keeps it in vocabulary.json.
#include <cstdint>
#include <string>
#include <vector>

#include "longbow/data/samples/dataset.h"

namespace longbow {

struct DataFacts {
  Splits splits = {};  // sizes, ids, symbols and labels; their data sets hold no samples
  // What training samples begin with, and how many of them: texts can be begun alike.
  std::vector<int64_t> first_tokens = {}, first_counts = {};
};

DataFacts facts_of(const Splits& splits);

std::string to_json(const DataFacts& facts);
// UserError where the text is not one that to_json wrote.
DataFacts parse_facts(const std::string& text, const std::string& file);

}  // namespace longbow
