#pragma once
// Hugging Face's words for a BERT: the keys of its config.json and the names of its weights.
#include "longbow/models/bert/bert.h"

namespace longbow {

// From the tree of a config.json. UserError where it asks for what is not built here.
BertConfig bert_from_hugging_face(const Node& tree);
// Back again, over everything else that `source`, the config.json of an import, says.
Node bert_to_hugging_face(const BertConfig& config, const Node& source);

// UserError at `place` unless every layer has softmax attention with the same options, which theirs
// has.
void check_softmax(const BertConfig& config, const Place& place);

struct WeightName {
  std::string theirs, ours;
  std::vector<int64_t> shape;  // with softmax attention
  int64_t layer = -1;          // -1: outside the layers
};
// Of all weights that a BERT with softmax attention has.
std::vector<WeightName> bert_weight_names(const BertConfig& config);

}  // namespace longbow
