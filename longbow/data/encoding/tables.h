#pragma once
// Corpora in tables: what your own file and published sets have in common.
#include "longbow/corpus/readers/table.h"
#include "longbow/data/encoding/text_corpus.h"

namespace longbow {

// One class or one number for a text, or for two. A `value` column makes it a number; without
// `label` too, the texts are alone.
TextCorpus table_corpus(const TextFiles& files, const corpus::TableOptions& columns,
                        const corpus::SplitOptions& fractions, uint64_t seed,
                        const corpus::TextOptions& text = {});

// What such a corpus is for: classification, pairs or regression. OptionError for texts alone.
std::string table_objective(const corpus::TableOptions& columns);

}  // namespace longbow
