// CIFAR-10 (Krizhevsky, 2009) in grey, pixel by pixel: the image task of the Long Range Arena.
#include "longbow/data/sets/cifar10.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "longbow/corpus/files/tar.h"
#include "longbow/data/encoding/published.h"
#include "longbow/data/readers/jpeg.h"

namespace longbow {

// (19595 R + 38470 G + 7471 B + 2^15) / 2^16: weights 0.299, 0.587 and 0.114 of 2^16.
uint8_t pil_grey(uint8_t red, uint8_t green, uint8_t blue) {
  return static_cast<uint8_t>((19595U * red + 38470U * green + 7471U * blue + 32768U) >> 16U);
}

// Floats in 0..1, their sum times 255.5, cut off.
uint8_t tf_grey(uint8_t red, uint8_t green, uint8_t blue) {
  const auto unit = [](uint8_t level) { return static_cast<float>(level) * (1.0F / 255.0F); };
  const float sum = unit(red) * 0.2989F + unit(green) * 0.5870F + unit(blue) * 0.1140F;
  return static_cast<uint8_t>(sum * 255.5F);
}

namespace {

constexpr ImageSize kSize = {32, 32};
const std::vector<std::string> kClasses = {"airplane", "automobile", "bird",  "cat",  "deer",
                                           "dog",      "frog",       "horse", "ship", "truck"};

enum class CifarFiles { automatic, binary, grey, jpeg };
constexpr std::array<std::string_view, 4> names_of(CifarFiles) {
  return {"auto", "binary", "grey", "jpeg"};
}

struct Cifar10Config {
  CifarFiles files = CifarFiles::automatic;
  Grey grey = Grey::pil;
  ImageSplit split = {};
};
template <class V>
void fields(V& v, Cifar10Config& c) {
  v("files", c.files,
    "which files are read; auto: data_batch_1.bin and so on, else cifar10_gray_train.bin, else "
    "cifar10_jpeg.tar");
  v("grey", c.grey,
    "of red, green and blue: (19595 R + 38470 G + 7471 B + 32768) / 65536 as in Pillow and "
    "torchvision, or 255.5 (0.2989 R + 0.587 G + 0.114 B) / 255 as in TensorFlow, both cut off");
  fields(v, c.split);
}

struct Cifar {
  std::shared_ptr<GreyImages> train = std::make_shared<GreyImages>(),
                              test = std::make_shared<GreyImages>();
  std::vector<std::string> files = {};
};

// Found as published, in a folder, or beside each other.
std::string binary_file(const std::string& path, const std::string& name) {
  return published_file("cifar10", path, {"cifar-10-batches-bin/" + name, name});
}

void read_file_of(Cifar& cifar, GreyImages& images, const std::string& path, int64_t planes,
                  ToGrey grey) {
  read_records(image_file(path), path, {.size = kSize, .planes = planes}, grey, images);
  cifar.files.push_back(path);
}

Cifar read_binary(const std::string& path, ToGrey grey) {
  Cifar cifar;
  for (int batch = 1; batch <= 5; ++batch)
    read_file_of(cifar, *cifar.train, binary_file(path, fmt::format("data_batch_{}.bin", batch)), 3,
                 grey);
  read_file_of(cifar, *cifar.test, binary_file(path, "test_batch.bin"), 3, grey);
  return cifar;
}

Cifar read_grey(const std::string& path) {
  Cifar cifar;
  const auto file = [&](const std::string& split) {
    return published_file("cifar10", path, {"cifar10_gray_" + split + ".bin"});
  };
  read_file_of(cifar, *cifar.train, file("train"), 1, nullptr);
  read_file_of(cifar, *cifar.test, file("test"), 1, nullptr);
  return cifar;
}

// train/cat/0123.jpg: the first image of every class comes before the second one of any.
struct Member {
  std::string split, number;
  int32_t label;
  std::vector<uint8_t> image;
  auto order() const { return std::tie(number, label); }
};

Member member_of(const std::string& name, std::string_view bytes, const std::string& archive,
                 ToGrey grey) {
  const auto place = archive + ": " + name;
  const std::filesystem::path path(name);
  const auto found = std::ranges::find(kClasses, path.parent_path().filename().string());
  const auto split = path.parent_path().parent_path().filename().string();
  if (found == kClasses.end() || (split != "train" && split != "test"))
    throw UserError(Place{place, 0}, "is not an image of CIFAR-10",
                    "images are train/CLASS/NUMBER.jpg and test/CLASS/NUMBER.jpg");
  const auto pixels = read_jpeg(bytes, place, kSize);
  Member member = {split, path.stem().string(), static_cast<int32_t>(found - kClasses.begin()), {}};
  for (size_t i = 0; i < pixels.size(); i += 3)
    member.image.push_back(grey(pixels[i], pixels[i + 1], pixels[i + 2]));
  return member;
}

Cifar read_archive(const std::string& path, ToGrey grey) {
  const auto file = published_file("cifar10", path, {"cifar10_jpeg.tar"});
  constexpr size_t kMostBytes = size_t{1} << 20;  // of an image
  std::vector<Member> members;
  corpus::read_tar(*corpus::open_file(file), file, kMostBytes,
                   [&](const std::string& name, std::string_view bytes) {
                     members.push_back(member_of(name, bytes, file, grey));
                   });
  std::ranges::sort(members, {}, &Member::order);
  Cifar cifar = {.files = {file}};
  cifar.train->size = cifar.test->size = kSize;
  for (const auto& member : members)
    (member.split == "train" ? cifar.train : cifar.test)->add(member.image, member.label);
  return cifar;
}

CifarFiles files_in(const std::string& path) {
  const auto has = [&](const char* name) { return find_packed_or_plain(path, name).has_value(); };
  const bool has_binary = has("cifar-10-batches-bin/data_batch_1.bin") || has("data_batch_1.bin");
  if (!has_binary && has("cifar10_gray_train.bin")) return CifarFiles::grey;
  if (!has_binary && has("cifar10_jpeg.tar")) return CifarFiles::jpeg;
  return CifarFiles::binary;
}

Splits load_cifar10(const DataConfig& config, const Cifar10Config& options) {
  const auto files = options.files == CifarFiles::automatic ? files_in(config.path) : options.files;
  const ToGrey grey = options.grey == Grey::pil ? pil_grey : tf_grey;
  const auto cifar = files == CifarFiles::binary ? read_binary(config.path, grey)
                     : files == CifarFiles::grey ? read_grey(config.path)
                                                 : read_archive(config.path, grey);
  auto splits = image_splits(config, cifar.train, cifar.test, options.split, kClasses);
  note_files(splits, cifar.files);
  return splits;
}

}  // namespace

DataSource cifar10_data_set() {
  return data_source<Cifar10Config>(
      {.name = "cifar10",
       .description = "CIFAR-10: what is in a grey image, pixel by pixel, 10 classes; accuracy",
       .objective = "classification",
       .files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                 "data_batch_5.bin", "test_batch.bin"},
       .recipe = {"{task: cifar10, data: {path: .}, model: {input: pixels, positions: axial}, "
                  "train: {max_steps: 300, batch_size: 16, learning_rate: 2e-3}}",
                  "an accuracy of 21 % from 7,200 images; each class has 10 %"},
       .origin = {.licence = "for research; cite Krizhevsky (2009)",
                  .published = "Alex Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html, "
                               "cifar-10-binary.tar.gz, 170 MB",
                  .files = {"data_batch_1.bin to data_batch_5.bin: 10,000 images each, 31 MB, here "
                            "or in cifar-10-batches-bin",
                            "test_batch.bin: 10,000 images, 31 MB",
                            "or cifar10_gray_train.bin, cifar10_gray_test.bin: records of a label "
                            "and 1,024 grey levels",
                            "or cifar10_jpeg.tar: train/CLASS/NUMBER.jpg, test/CLASS/NUMBER.jpg"}}},
      load_cifar10, nullptr);
}

}  // namespace longbow
