#pragma once
// What a model must know of its data, in the folder of its run: vocabulary.json, and tokenizers as
// Hugging Face's library reads them.
#include "longbow/core/run_folder.h"
#include "longbow/data/samples/facts.h"

namespace longbow {

void save_facts(const DataFacts& facts, const RunFolder& folder);
DataFacts load_facts(const RunFolder& folder);

}  // namespace longbow
