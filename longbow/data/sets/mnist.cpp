// MNIST (LeCun, Cortes, Burges): handwritten digits, pixel by pixel.
#include <fmt/format.h>

#include <optional>

#include "longbow/core/log.h"
#include "longbow/data/encoding/published.h"
#include "longbow/data/readers/idx.h"
#include "longbow/data/readers/images.h"

namespace longbow {
namespace {

const std::vector<std::string> kDigits = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

struct IdxPair {
  std::string images, labels;
};
// Their names have a hyphen or a point before idx.
std::optional<IdxPair> find_pair(const std::string& folder, const std::string& split) {
  for (const std::string mark : {"-", "."})
    if (const auto images = find_packed_or_plain(folder, split + "-images" + mark + "idx3-ubyte"))
      return IdxPair{*images,
                     published_file("mnist", folder, {split + "-labels" + mark + "idx1-ubyte"})};
  return {};
}

std::shared_ptr<const GreyImages> read_pair(const IdxPair& files) {
  const auto image_bytes = image_file(files.images), label_bytes = image_file(files.labels);
  const auto pictures = parse_idx(image_bytes, files.images, 3);
  const auto labels = parse_idx(label_bytes, files.labels, 1);
  if (labels.sizes[0] != pictures.sizes[0])
    throw UserError(Place{files.labels, 0},
                    fmt::format("{} labels for {} images", labels.sizes[0], pictures.sizes[0]),
                    "the files do not belong together");
  GreyImages images = {.size = {pictures.sizes[1], pictures.sizes[2]},
                       .pixels = {pictures.bytes.begin(), pictures.bytes.end()}};
  for (size_t i = 0; i < labels.bytes.size(); ++i) {
    const auto label = static_cast<uint8_t>(labels.bytes[i]);
    if (label >= kDigits.size())
      throw UserError(Place{files.labels, 0}, fmt::format("label {} is {}", i, label),
                      "labels are 0..9");
    images.labels.push_back(label);
  }
  return std::make_shared<const GreyImages>(std::move(images));
}

Splits load_mnist(const DataConfig& config, const ImageSplit& options) {
  auto train = find_pair(config.path, "train");
  const auto test = find_pair(config.path, "t10k");
  if (!train && !test)  // names what is missing
    published_file("mnist", config.path,
                   {"train-images-idx3-ubyte", "train-images.idx3-ubyte", "t10k-images-idx3-ubyte",
                    "t10k-images.idx3-ubyte"});
  if (!test) published_file("mnist", config.path, {"t10k-images-idx3-ubyte"});
  if (!train)
    info(
        "mnist: without train-images-idx3-ubyte, all splits are parts of the 10,000 test images; "
        "do not compare scores with published ones");
  const auto divided = read_pair(train ? *train : *test);
  const auto tested = train ? read_pair(*test) : nullptr;
  if (tested &&
      (tested->size.height != divided->size.height || tested->size.width != divided->size.width))
    throw UserError(Place{test->images, 0},
                    fmt::format("the images are {} x {} pixels, but those of {} are {} x {}",
                                tested->size.height, tested->size.width, train->images,
                                divided->size.height, divided->size.width));
  auto splits = image_splits(config, divided, tested, options, kDigits);
  note_files(splits, {test->images, test->labels});
  if (train) note_files(splits, {train->images, train->labels});
  return splits;
}

}  // namespace

DataSource mnist_data_set() {
  return data_source<ImageSplit>(
      {.name = "mnist",
       .description = "MNIST: which digit an image shows, pixel by pixel, 10 classes; accuracy",
       .objective = "classification",
       .files = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                 "t10k-labels-idx1-ubyte"},
       .recipe = {"{task: mnist, data: {path: .}, model: {input: pixels, positions: axial}, "
                  "train: {max_steps: 300, batch_size: 16, learning_rate: 2e-3}}",
                  "an accuracy of 23 % from 8,000 images, where one digit has 11 %"},
       .origin = {.licence = "CC BY-SA 3.0",
                  .published = "Yann LeCun, Corinna Cortes, Christopher Burges, "
                               "http://yann.lecun.com/exdb/mnist",
                  .files = {"train-images-idx3-ubyte: 60,000 images, 9.9 MB packed",
                            "train-labels-idx1-ubyte: their digits",
                            "t10k-images-idx3-ubyte: 10,000 images, 1.6 MB packed; alone they are "
                            "divided into all splits",
                            "t10k-labels-idx1-ubyte: their digits"}}},
      load_mnist, nullptr);
}

}  // namespace longbow
