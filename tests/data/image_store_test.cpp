#include "longbow/data/samples/image_store.h"

#include <gtest/gtest.h>

#include "tests/data/folder.h"

namespace longbow {
namespace {

constexpr std::array<uint8_t, 6> kFirst = {0, 1, 2, 255, 4, 5}, kSecond = {9, 8, 7, 6, 5, 4};

std::string stored(const Folder& folder) {
  const auto path = folder.file("images");
  ImageWriter writer(path, 2, 3);
  writer.add(kFirst, 1);
  writer.add(kSecond, 0);
  writer.finish();
  return path;
}

TEST(ImageStore, GivesPixelsAsTokensThatAreNoPadding) {
  const Folder folder;
  const auto data = open_images(stored(folder));
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->length(1), 6);
  EXPECT_EQ(data->get(0).tokens, (std::vector<int32_t>{1, 2, 3, 256, 5, 6}));
  EXPECT_EQ(data->get(0).targets, std::vector<int32_t>{1});
  EXPECT_EQ(data->get(1).tokens, (std::vector<int32_t>{10, 9, 8, 7, 6, 5}));
  EXPECT_EQ(data->get(1).targets, std::vector<int32_t>{0});
  EXPECT_THROW(data->get(2), std::out_of_range);
  EXPECT_EQ(std::filesystem::file_size(folder.file("images/pixels")), 12u) << "a byte each";
}

TEST(ImageStore, HasTheChecksumOfTheSameSamplesInMemory) {
  const Folder folder;
  MemoryDataset memory(MemoryDataset::Targets::one_class);
  memory.add(std::vector<int32_t>{1, 2, 3, 256, 5, 6}, std::vector<int32_t>{1});
  memory.add(std::vector<int32_t>{10, 9, 8, 7, 6, 5}, std::vector<int32_t>{0});
  EXPECT_EQ(open_images(stored(folder))->checksum(), memory.checksum());
}

TEST(ImageStore, NamesEveryGreyLevel) {
  EXPECT_EQ(std::ssize(grey_symbols()), kGreyTokens);
  EXPECT_EQ(grey_symbols()[1], "0");
  EXPECT_EQ(grey_symbols()[256], "255");
}

TEST(ImageStore, RefusesOtherKindsOfImages) {
  const Folder folder;
  ImageWriter writer(folder.file("images"), 2, 2);
  EXPECT_THROW(writer.add(kFirst, 1), std::invalid_argument);
  EXPECT_THROW(writer.add(std::array<uint8_t, 4>{}, 256), std::invalid_argument);
}

TEST(ImageStore, FindsFilesThatWereChanged) {
  const std::string kHint = "; remove this entry of the cache: it is made again";
  const Folder folder;
  const auto path = stored(folder);
  const auto opened = [&] { return error_of([&] { open_images(path); }, folder.str()); };
  const auto before = folder.read("images/pixels");
  for (const auto& changed : {before.substr(1), before + "x", "y" + before.substr(1)}) {
    folder.write("images/pixels", changed);
    EXPECT_EQ(opened(), "images/pixels: not what was written" + kHint);
  }
  folder.write("images/pixels", before);
  EXPECT_EQ(opened(), "no error");
  folder.write("images/labels", "ab");
  EXPECT_EQ(opened(), "images/labels: not what was written" + kHint);
  std::filesystem::remove(folder.file("images/pixels"));
  EXPECT_EQ(opened(), "images/pixels: no such file" + kHint);
  folder.write("images/images.json", "{");
  EXPECT_EQ(opened(), "images/images.json: not what was written" + kHint);
}

}  // namespace
}  // namespace longbow
