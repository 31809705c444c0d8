#pragma once
// Pictures as PNG files (ISO/IEC 15948) of 8 bits a sample.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longbow::corpus {

struct GreyImage {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels = {};  // row by row
  bool operator==(const GreyImage&) const = default;
};

// Grey, coloured or with a palette; without its alpha. Colours become grey as Pillow's "L", by the
// weights of ITU-R 601. Every checksum is compared. UserError where the file is cut, changed,
// interlaced or of another depth; `name` is for messages.
GreyImage parse_png(std::string_view bytes, const std::string& name);

std::string to_png(const GreyImage& image);

}  // namespace longbow::corpus
