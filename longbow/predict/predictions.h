#pragma once
// What a trained model says of inputs, one map each, in the order to be shown: "input" first, then
// what its objective predicts, "target" last where one is known.
#include "longbow/data/feed/sampler.h"
#include "longbow/predict/inputs.h"

namespace longbow::predict {

// Of lines; `trained` is how samples were batched in training.
std::vector<Node> predictions_of(Task& task, const std::vector<Line>& lines,
                                 const SamplerConfig& trained);
// Of the first `limit` samples of a split (0: all), in the batches and with the draws of an
// evaluation, so that its metrics are those of what is shown.
std::vector<Node> predictions_of(Task& task, std::shared_ptr<const Dataset> split,
                                 const SamplerConfig& trained, int64_t limit);

}  // namespace longbow::predict
