#include "longbow/models/bert/bert_encoder.h"

#include <utility>

namespace longbow {

std::string name_in_encoder(const std::string& name) {
  for (const auto& [theirs, ours] :
       {std::pair{"embedding_norm.", "encoder.embedding.norm."}, {"pooler.", "pooler.dense."}})
    if (name.starts_with(theirs)) return ours + name.substr(std::string(theirs).size());
  const bool is_table = name == "words" || name == "positions" || name == "segments";
  return (is_table ? "encoder.embedding." : "encoder.") + name;
}

EncoderConfig encoder_of(const BertConfig& config) {
  auto encoder = config.encoder;
  encoder.segments = config.token_types;
  encoder.embedding_norm = true;
  return encoder;
}

Tensors encoder_weights(const Tensors& bert) {
  Tensors weights;
  for (const auto& [name, tensor] : bert) weights[name_in_encoder(name)] = tensor;
  return weights;
}

}  // namespace longbow
