#pragma once
// Grey images as samples: pixels row by row, each the token 1 + grey level, so that black is not
// padding. One byte a pixel in memory.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longbow/core/fields.h"
#include "longbow/data/readers/source.h"
#include "longbow/data/samples/dataset.h"

namespace longbow {

struct GreyImages {
  ImageSize size = {};
  std::vector<uint8_t> pixels = {};  // [images, height, width]
  std::vector<int32_t> labels = {};  // [images]

  int64_t count() const { return std::ssize(labels); }
  void add(std::span<const uint8_t> image, int32_t label);
};

enum class ImageOrder { s4_seed42, file };
constexpr std::array<std::string_view, 2> names_of(ImageOrder) {
  return {"s4-seed42", "file"};
}

struct ImageSplit {
  ImageOrder order = ImageOrder::s4_seed42;
  double valid_fraction = 0.1;
};
template <class V>
void fields(V& v, ImageSplit& c) {
  v("split", c.order,
    "the last of the training images are for validation, after torch.randperm with seed 42 as in "
    "the S4 code, or in the order of the files");
  v("valid_fraction", c.valid_fraction, "of the training images, for validation",
    range(0.001, 0.4));
}

// `train` is divided; without a `test` its last images are for the test, as many as for
// validation. `labels` name the classes. UserError where data.max_tokens would cut an image, or a
// split is left without any.
Splits image_splits(const DataConfig& config, std::shared_ptr<const GreyImages> train,
                    std::shared_ptr<const GreyImages> test, const ImageSplit& split,
                    const std::vector<std::string>& labels);

// All bytes of a file, plain or packed, and its checksum in `splits` under its name.
std::string image_file(const std::string& path);
void note_files(Splits& splits, const std::vector<std::string>& paths);

// Records of a label byte and a picture of `planes` planes, one after another, as in CIFAR-10's
// binary files; `grey` makes one plane of them. UserError for a part of a record and for a label
// that is not below `classes`.
struct RecordLayout {
  ImageSize size = {};
  int64_t planes = 1, classes = 10;
};
using ToGrey = uint8_t (*)(uint8_t red, uint8_t green, uint8_t blue);
void read_records(std::string_view bytes, const std::string& name, const RecordLayout& layout,
                  ToGrey grey, GreyImages& images);

}  // namespace longbow
