#pragma once
// A BERT as the encoder of any other model: the same function, with an encoder's words for it.
#include "longbow/models/bert/bert.h"

namespace longbow {

EncoderConfig encoder_of(const BertConfig& config);
// The name that a model with an encoder, and perhaps a pooler, gives a weight of BERT.
std::string name_in_encoder(const std::string& name);
// Weights by the names that a model with an encoder, and perhaps a pooler, gives them.
Tensors encoder_weights(const Tensors& bert);

}  // namespace longbow
