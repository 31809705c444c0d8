#pragma once
#include "longbow/data/samples/dataset.h"
#include "longbow/models/encoder/encoder_config.h"

namespace longbow {

// Fills in what an encoder leaves to the images that it reads: mean and deviation of its pixels,
// and the columns of its axial positions. UserError at its place in `tree` where it reads pixels,
// and the samples are not images.
void fit_image(EncoderConfig& config, const Splits& splits, const Node& tree);

}  // namespace longbow
