#pragma once
#include <memory>

#include "longbow/data/samples/dataset.h"

namespace longbow {

// Every sequence of a sample between these tokens, as [CLS] … [SEP]. Where it has none, the data
// set as it is.
std::shared_ptr<const Dataset> framed(std::shared_ptr<const Dataset> data, const Frame& frame);
// The same of all splits, with their longest length.
Splits framed(Splits splits);

}  // namespace longbow
