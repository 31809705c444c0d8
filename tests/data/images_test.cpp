#include "longbow/data/readers/images.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "longbow/data/readers/torch_permutation.h"
#include "tests/data/folder.h"

namespace longbow {
namespace {

// Images of two rows and three columns; the first pixel is the number of the image.
std::shared_ptr<const GreyImages> numbered(int count) {
  GreyImages images = {.size = {2, 3}};
  for (int i = 0; i < count; ++i) {
    const std::vector<uint8_t> image = {static_cast<uint8_t>(i), 0, 255, 1, 2, 3};
    images.add(image, i % 2);
  }
  return std::make_shared<const GreyImages>(std::move(images));
}

std::vector<int64_t> numbers_in(const Dataset& data) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < data.size(); ++i) numbers.push_back(data.get(i).tokens.front() - 1);
  return numbers;
}

TEST(Images, ArePixelsRowByRowAndBlackIsNotPadding) {
  const auto splits = image_splits({.name = "x"}, numbered(10), numbered(3),
                                   {.order = ImageOrder::file}, {"a", "b"});
  EXPECT_EQ(splits.train->get(7).tokens, (std::vector<int32_t>{8, 1, 256, 2, 3, 4}));
  EXPECT_EQ(splits.train->get(7).targets, std::vector<int32_t>{1});
  EXPECT_EQ(splits.train->length(7), 6);
  EXPECT_EQ(splits.vocabulary, 257);
  EXPECT_EQ(splits.symbols.at(1), "0");
  EXPECT_EQ(splits.symbols.at(256), "255");
  EXPECT_EQ(splits.classes, 2);
  EXPECT_EQ(splits.max_length, 6);
  EXPECT_EQ(splits.image.height, 2);
  EXPECT_EQ(splits.image.width, 3);
}

TEST(Images, AreSplitInTheOrderOfTheFilesOrAsInTheS4Code) {
  const auto split = [](ImageOrder order, bool test) {
    return image_splits({.name = "x"}, numbered(20), test ? numbered(2) : nullptr, {.order = order},
                        {"a", "b"});
  };
  const auto plain = split(ImageOrder::file, true);
  EXPECT_EQ(plain.train->size(), 18);
  EXPECT_EQ(numbers_in(*plain.valid), (std::vector<int64_t>{18, 19}));
  EXPECT_EQ(numbers_in(*plain.test), (std::vector<int64_t>{0, 1}));
  const auto drawn = torch_permutation(20, 42);
  const auto s4 = split(ImageOrder::s4_seed42, true);
  EXPECT_EQ(numbers_in(*s4.train), std::vector<int64_t>(drawn.begin(), drawn.begin() + 18));
  EXPECT_EQ(numbers_in(*s4.valid), std::vector<int64_t>(drawn.begin() + 18, drawn.end()));
  const auto alone = split(ImageOrder::s4_seed42, false);
  EXPECT_EQ(numbers_in(*alone.train), std::vector<int64_t>(drawn.begin(), drawn.begin() + 16));
  EXPECT_EQ(numbers_in(*alone.valid), std::vector<int64_t>(drawn.begin() + 16, drawn.begin() + 18));
  EXPECT_EQ(numbers_in(*alone.test), std::vector<int64_t>(drawn.begin() + 18, drawn.end()));
}

TEST(Images, AreNeitherCutNorMissingInASplit) {
  const auto load = [](int count, int64_t max_tokens) {
    return error_of([&] {
      image_splits({.name = "x", .max_tokens = max_tokens}, numbered(count), nullptr, {}, {"a"});
    });
  };
  EXPECT_EQ(
      load(20, 5),
      "data.max_tokens is 5, which would cut x samples of up to 6 tokens; an image is read as "
      "a whole; leave max_tokens out");
  EXPECT_EQ(load(20, 6), "no error");
  EXPECT_EQ(load(9, 0), "x: 9 images are too few for all splits; give more of them");
}

TEST(Images, AreRecordsOfALabelAndPlanes) {
  GreyImages images;
  const RecordLayout layout = {.size = {1, 2}, .planes = 3, .classes = 4};
  // red 1 2, green 3 4, blue 5 6
  read_records(
      std::string("\x03\x01\x02\x03\x04\x05\x06", 7), "a.bin", layout,
      [](uint8_t red, uint8_t green, uint8_t blue) {
        return static_cast<uint8_t>(100 * red + 10 * green + blue);
      },
      images);
  EXPECT_EQ(images.labels, std::vector<int32_t>{3});
  EXPECT_EQ(images.pixels, (std::vector<uint8_t>{135, 246}));
  const auto mistake = [&](const std::string& bytes) {
    return error_of([&] {
      read_records(bytes, "a.bin", {.size = {1, 2}, .planes = 1, .classes = 4}, nullptr, images);
    });
  };
  EXPECT_EQ(mistake("123456789" + std::string(1, '\0')),
            "a.bin: 10 bytes are not records of 3 bytes; a label and an image each; copy or "
            "download the file again");
  EXPECT_EQ(mistake(""),
            "a.bin: 0 bytes are not records of 3 bytes; a label and an image each; copy or "
            "download the file again");
  EXPECT_EQ(mistake(std::string("\x03\x09\x09\x04\x09\x09", 6)),
            "a.bin: the label of record 1 is 4; labels are 0..3");
}

}  // namespace
}  // namespace longbow
