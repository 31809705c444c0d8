#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/data/samples/dataset.h"

namespace longbow {

// Whether this build has a decoder: libjpeg is optional.
bool reads_jpeg();

// Red, green and blue of each pixel, row by row. UserError at `name` for what is not a JPEG image
// of this size, or without a decoder.
std::vector<uint8_t> read_jpeg(std::string_view bytes, const std::string& name,
                               const ImageSize& size);

}  // namespace longbow
