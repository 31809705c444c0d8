#pragma once
// A model that starts from the weights that StartConfig names: its vocabulary, what stays as it is,
// and what it takes over.
#include "longbow/data/samples/dataset.h"
#include "longbow/nn/contract/part.h"
#include "longbow/train/run/move.h"
#include "longbow/train/run/start.h"

namespace longbow {

// The model keeps its vocabulary where the data has fewer words; other ids have no names. UserError
// where the data has more, or where its ids are not those of the model's tokenizer.
void fit_vocabulary(const StartConfig& start, Splits& splits);
// Parameters that stay as they are need no gradient.
void freeze(const StartConfig& start, Part& model);
// The weights of the folder, for a model of `objective`; none when no folder is named.
Inheritance starting_weights(const StartConfig& start, const std::string& objective);

}  // namespace longbow
