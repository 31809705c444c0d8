#pragma once
#include "longbow/data/samples/dataset.h"

namespace longbow {

// What the targets of a pair are: classes, or places in its second sequence.
enum class Answers { classes, places };

// Each pair as one sequence, first, separator, second; the second one's tokens are segment 1, the
// others segment 0. The separator is one more id at the end of the vocabulary. Places move along.
Splits joined(Splits splits, Answers answers);
// The same of one data set.
std::shared_ptr<const Dataset> joined(std::shared_ptr<const Dataset> pairs, int64_t separator,
                                      Answers answers);

}  // namespace longbow
