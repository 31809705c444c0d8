#pragma once
// What models say of samples, as maps to be shown: numbers with seven digits, null for what has no
// target.
#include "longbow/tasks/task.h"

namespace longbow {

Node list_of(const Tensor& row);  // [N] integers, kIgnore as null; or numbers
Node words_of(const Tensor& ids, const Symbols& names);  // [N] int64 -> a list of their texts
// The first `length` [] of the tokens [N] as one text.
std::string text_of(const Tensor& tokens, const Tensor& length, const Symbols& names);

// The most probable class by logits [B, K]: "class", "probability"; for every real token by logits
// [B, N, K]: "classes", "probabilities". `labels` are the names of the classes, "label" or
// "labels", where they have any.
std::vector<Node> class_predictions(const Tensor& logits, const Batch& batch,
                                    const std::vector<std::string>& labels = {});
// values [B, K], wanted the same or undefined: "value" where K is 1, else "values".
std::vector<Node> value_predictions(const Tensor& values, const Tensor& wanted);

// What a sample of a batch asks, as a line of input would: a TAB between the sequences of a pair.
std::string input_text(const Task& task, const Batch& batch, int64_t row);

// Inputs that were read from somewhere, without targets, as the task's batches are made of them.
std::shared_ptr<const Dataset> inputs_of(const Task& task, std::vector<Sample> samples);

}  // namespace longbow
