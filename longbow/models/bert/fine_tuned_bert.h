#pragma once
// A model that was fine-tuned from a BERT, as the class of Hugging Face's library that computes the
// same.
#include <string>
#include <vector>

#include "longbow/models/bert/bert.h"

namespace longbow {

// What a model has on top of its encoder, as Hugging Face's library names it: a class of a sequence
// or of each token, a class of a pair, values, words, or the places of an answer.
enum class BertHead { none, classes, pairs, values, words, span };

struct FineTunedBert {
  BertHead head = BertHead::none;
  EncoderConfig encoder = {};
  Node model = {};                       // every option of the objective, spelled out
  std::vector<std::string> labels = {};  // names of the classes, or none
  Tensors weights = {};                  // by our names
};

struct HuggingFaceModel {
  Node config = {};      // of config.json
  Tensors weights = {};  // by their names
};

// `source` is the config.json of the BERT that training started from, or null. UserError at `place`
// for a model that no class of theirs computes.
HuggingFaceModel to_hugging_face(const FineTunedBert& model, const Node& source,
                                 const Place& place);

}  // namespace longbow
