#include "longbow/data/samples/image_store.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>

#include "longbow/core/fields.h"
#include "longbow/core/file.h"
#include "longbow/core/file_error.h"
#include "longbow/core/folder.h"
#include "longbow/core/mapped_file.h"
#include "longbow/data/samples/stored_file.h"

namespace longbow {
namespace {

constexpr int64_t kVersion = 1;

// images.json
struct ImageCard {
  int64_t version = kVersion, images = 0, height = 0, width = 0;
  std::string pixels = {}, labels = {};
};
template <class V>
void fields(V& v, ImageCard& c) {
  constexpr double kMost = 1 << 20;
  v("version", c.version, "of this format", at_least(0));
  v("images", c.images, "how many there are", at_least(0));
  v("height", c.height, "rows of an image", range(1, kMost));
  v("width", c.width, "columns of an image", range(1, kMost));
  v("pixels", c.pixels, "SHA-256 of the pixels");
  v("labels", c.labels, "SHA-256 of the classes");
}

std::string in(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

class StoredImages final : public Dataset {
 public:
  explicit StoredImages(const std::string& folder)
      : card_(read_card<ImageCard>(in(folder, "images.json"))),
        pixels_(stored_path(in(folder, "pixels"))),
        labels_(stored_path(in(folder, "labels"))) {
    const auto images = static_cast<size_t>(card_.images);
    if (card_.version != kVersion)
      fail_stored(in(folder, "images.json"), fmt::format("format {}", card_.version));
    if (pixels_.bytes().size() != images * static_cast<size_t>(length(0)) ||
        checksum_of(pixels_) != card_.pixels)
      fail_stored(in(folder, "pixels"), "not what was written");
    if (labels_.bytes().size() != images || checksum_of(labels_) != card_.labels)
      fail_stored(in(folder, "labels"), "not what was written");
  }
  int64_t size() const override { return card_.images; }
  int64_t length(int64_t) const override { return card_.height * card_.width; }
  Sample get(int64_t i) const override {
    if (i < 0 || i >= size()) throw std::out_of_range("no such image");
    const auto pixels = pixels_.as<uint8_t>().subspan(static_cast<size_t>(i * length(i)),
                                                      static_cast<size_t>(length(i)));
    Sample sample = {.tokens = {pixels.begin(), pixels.end()},
                     .targets = {labels_.as<uint8_t>()[static_cast<size_t>(i)]}};
    for (auto& token : sample.tokens) ++token;
    return sample;
  }

 private:
  ImageCard card_;
  MappedFile pixels_, labels_;
};

void append(std::ofstream& file, const std::string& folder, const char* name,
            std::span<const uint8_t> bytes) {
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file) fail_at(in(folder, name), "cannot be written", errno);
}

}  // namespace

std::vector<std::string> grey_symbols() {
  std::vector<std::string> symbols = {"<pad>"};
  for (int64_t grey = 0; grey + 1 < kGreyTokens; ++grey) symbols.push_back(std::to_string(grey));
  return symbols;
}

ImageWriter::ImageWriter(const std::string& folder, int64_t height, int64_t width)
    : folder_(folder), height_(height), width_(width) {
  make_folder(folder);
  pixels_.open(in(folder, "pixels"), std::ios::binary | std::ios::trunc);
  labels_.open(in(folder, "labels"), std::ios::binary | std::ios::trunc);
}

void ImageWriter::add(std::span<const uint8_t> pixels, int label) {
  if (std::ssize(pixels) != height_ * width_ || label < 0 || label > 255)
    throw std::invalid_argument("an image of another kind than the store's");
  const auto byte = static_cast<uint8_t>(label);
  append(pixels_, folder_, "pixels", pixels);
  append(labels_, folder_, "labels", {&byte, 1});
  ++images_;
}

void ImageWriter::finish() {
  pixels_.close();
  labels_.close();
  if (!pixels_ || !labels_) fail_at(folder_, "cannot be written", errno);
  const ImageCard card = {.images = images_,
                          .height = height_,
                          .width = width_,
                          .pixels = checksum_of(MappedFile(in(folder_, "pixels"))),
                          .labels = checksum_of(MappedFile(in(folder_, "labels")))};
  write_file(in(folder_, "images.json"), to_json(written(card), 2) + "\n");
}

std::shared_ptr<const Dataset> open_images(const std::string& folder) {
  return std::make_shared<StoredImages>(folder);
}

}  // namespace longbow
