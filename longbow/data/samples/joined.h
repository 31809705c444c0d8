#pragma once
#include "longbow/data/samples/dataset.h"

namespace longbow {

// What the targets of a pair are: classes, or places in its second sequence.
enum class Answers { classes, places };

// Each pair as one sequence, first, separator, second; the second one's tokens are segment 1, the
// others segment 0. Places move along. The separator is the last token of the frame, which is
// around both then ([CLS] a [SEP] b [SEP]), or one more id at the end of the vocabulary.
Splits joined(Splits splits, Answers answers);
// The same of one data set.
std::shared_ptr<const Dataset> joined(std::shared_ptr<const Dataset> pairs, int64_t separator,
                                      Answers answers, const Frame& frame = {});

}  // namespace longbow
