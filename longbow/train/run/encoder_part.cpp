#include "longbow/train/run/encoder_part.h"

#include "longbow/models/encoder/encoder_config.h"

namespace longbow {

const Node& with_encoder(const Node& model) {
  const auto* nested = model.find("encoder");
  return nested ? *nested : model;
}

Node encoder_part(const Node& model) {
  Node part = Node::map();
  part.place = model.place;
  for (const auto& doc : describe<EncoderConfig>()) {
    const auto key = doc.name.substr(0, doc.name.find('.'));
    if (const auto* value = model.find(key)) part[key] = *value;
  }
  return part;
}

}  // namespace longbow
