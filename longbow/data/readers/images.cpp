#include "longbow/data/readers/images.h"

#include <fmt/format.h>

#include <filesystem>
#include <numeric>

#include "longbow/core/file.h"
#include "longbow/corpus/files/byte_source.h"
#include "longbow/data/readers/torch_permutation.h"
#include "longbow/data/samples/image_store.h"

namespace longbow {
namespace {

// Some of the images.
class ImageDataset final : public Dataset {
 public:
  ImageDataset(std::shared_ptr<const GreyImages> images, std::vector<int64_t> which)
      : images_(std::move(images)), which_(std::move(which)) {}
  int64_t size() const override { return std::ssize(which_); }
  int64_t length(int64_t) const override { return images_->size.height * images_->size.width; }
  Sample get(int64_t i) const override {
    const auto image = which_.at(static_cast<size_t>(i)), length = this->length(i);
    const auto* from = images_->pixels.data() + image * length;
    Sample sample = {.tokens = {from, from + length},
                     .targets = {images_->labels[static_cast<size_t>(image)]}};
    for (auto& token : sample.tokens) ++token;
    return sample;
  }

 private:
  std::shared_ptr<const GreyImages> images_;
  std::vector<int64_t> which_;
};

std::vector<int64_t> order_of(int64_t count, ImageOrder order) {
  if (order == ImageOrder::s4_seed42) return torch_permutation(count, 42);
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

void GreyImages::add(std::span<const uint8_t> image, int32_t label) {
  pixels.insert(pixels.end(), image.begin(), image.end());
  labels.push_back(label);
}

Splits image_splits(const DataConfig& config, std::shared_ptr<const GreyImages> train,
                    std::shared_ptr<const GreyImages> test, const ImageSplit& split,
                    const std::vector<std::string>& labels) {
  const auto all = order_of(train->count(), split.order);
  const auto held = static_cast<int64_t>(split.valid_fraction * static_cast<double>(all.size()));
  const int64_t tested = test ? 0 : held, kept = std::ssize(all) - held - tested;
  if (held == 0 || kept == 0 || (test && test->count() == 0))
    throw UserError(
        fmt::format("{}: {} images are too few for all splits", config.name, train->count()),
        "give more of them");
  const auto part = [&](int64_t from, int64_t count) {
    const auto begin = all.begin() + from;
    return std::make_shared<ImageDataset>(train, std::vector<int64_t>(begin, begin + count));
  };
  Splits splits = {.vocabulary = kGreyTokens,
                   .classes = std::ssize(labels),
                   .image = train->size,
                   .symbols = grey_symbols(),
                   .labels = labels};
  set_splits(splits, part(0, kept), part(kept, held),
             test ? std::make_shared<ImageDataset>(test, order_of(test->count(), ImageOrder::file))
                  : part(kept + held, tested));
  refuse_cut(config, splits.max_length, "an image is read as a whole; leave max_tokens out");
  return splits;
}

std::string image_file(const std::string& path) {
  const auto source = corpus::open_file(path);
  std::string bytes;
  std::string block(size_t{1} << 20, '\0');
  for (size_t count; (count = source->read(block.data(), block.size())) > 0;)
    bytes.append(block, 0, count);
  return bytes;
}

void note_files(Splits& splits, const std::vector<std::string>& paths) {
  for (const auto& path : paths)
    splits.checksums[std::filesystem::path(path).filename().string()] = sha256_of_file(path);
}

void read_records(std::string_view bytes, const std::string& name, const RecordLayout& layout,
                  ToGrey grey, GreyImages& images) {
  const auto pixels = static_cast<size_t>(layout.size.height * layout.size.width);
  const size_t record = 1 + pixels * static_cast<size_t>(layout.planes);
  if (bytes.empty() || bytes.size() % record != 0)
    throw UserError(Place{name, 0},
                    fmt::format("{} bytes are not records of {} bytes", bytes.size(), record),
                    "a label and an image each; copy or download the file again");
  images.size = layout.size;
  images.pixels.reserve(images.pixels.size() + bytes.size() / record * pixels);
  std::vector<uint8_t> image(pixels);
  for (size_t at = 0; at < bytes.size(); at += record) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[at + 1 + i]); };
    const int label = static_cast<uint8_t>(bytes[at]);
    if (label >= layout.classes)
      throw UserError(Place{name, 0},
                      fmt::format("the label of record {} is {}", at / record, label),
                      fmt::format("labels are 0..{}", layout.classes - 1));
    for (size_t i = 0; i < pixels; ++i)
      image[i] =
          layout.planes == 1 ? byte(i) : grey(byte(i), byte(pixels + i), byte(2 * pixels + i));
    images.add(image, label);
  }
}

}  // namespace longbow
