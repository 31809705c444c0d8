#pragma once
// Grey pictures of one size, each with a class, on disk: a folder with a byte for every pixel and
// every class, and images.json with what they are and their checksums. They are read through a
// memory map. As a sample, a picture is its pixels row by row; a pixel is the token grey + 1, so
// that black is not padding.
#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string>

#include "longbow/data/samples/dataset.h"

namespace longbow {

inline constexpr int64_t kGreyTokens = 257;  // padding, and 256 levels
std::vector<std::string> grey_symbols();     // by token: <pad>, 0, 1, …, 255

class ImageWriter {
 public:
  // Makes the folder. finish() writes what makes it one that can be opened.
  ImageWriter(const std::string& folder, int64_t height, int64_t width);
  void add(std::span<const uint8_t> pixels, int label);  // 0..255
  void finish();

 private:
  std::string folder_;
  int64_t height_, width_, images_ = 0;
  std::ofstream pixels_, labels_;
};

// Checks sizes and checksums: a UserError names the file that is not as it was written.
std::shared_ptr<const Dataset> open_images(const std::string& folder);

}  // namespace longbow
