#pragma once
#include "longbow/core/config.h"

namespace longbow {

// The part of a model config that holds its encoder: that of an encoder-decoder is nested.
const Node& with_encoder(const Node& model);
// The entries of such a part that describe the encoder.
Node encoder_part(const Node& model);

}  // namespace longbow
