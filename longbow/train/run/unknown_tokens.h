#pragma once
#include "longbow/data/samples/dataset.h"

namespace longbow {

// Fraction of the tokens of the training split that are the unknown token; estimated from samples
// spread over a large split. 0 where the data has no unknown token.
double unknown_share(const Splits& splits);

// One line if that is more than half: words that are all the same token tell nothing.
void warn_of_unknown_tokens(const Splits& splits);

}  // namespace longbow
