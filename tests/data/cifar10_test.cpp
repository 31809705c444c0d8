#include "longbow/data/sets/cifar10.h"

#include <gtest/gtest.h>

#include "longbow/core/folder.h"
#include "longbow/data/readers/jpeg.h"
#include "tests/data/flat_jpeg.h"
#include "tests/data/published.h"
#include "tests/support/tar.h"

namespace longbow {
namespace {

using Counts = std::map<std::string, int64_t>;

// Images of one colour, which is that of its class times 20.
std::string records(int count, size_t planes) {
  std::string bytes;
  for (int i = 0; i < count; ++i)
    bytes +=
        static_cast<char>(i % 10) + std::string(planes * 1024, static_cast<char>(20 * (i % 10)));
  return bytes;
}

void write_batches(const Folder& folder, const std::string& root) {
  for (int i = 1; i <= 5; ++i)
    folder.write(root + "data_batch_" + std::to_string(i) + ".bin", records(20, 3));
  folder.write(root + "test_batch.bin", records(10, 3));
}

Splits load(const Folder& folder, const std::string& options = "{}") {
  return load_published({.set = "cifar10", .path = folder.str(), .options = options});
}

TEST(Cifar10, MakesColoursGreyAsPillowOrTensorFlowDo) {
  EXPECT_EQ(pil_grey(0, 0, 0), 0);
  EXPECT_EQ(pil_grey(255, 255, 255), 255);
  EXPECT_EQ(pil_grey(255, 0, 0), 76);
  EXPECT_EQ(pil_grey(0, 255, 0), 150);
  EXPECT_EQ(pil_grey(0, 0, 255), 29);
  EXPECT_EQ(tf_grey(0, 0, 0), 0);
  EXPECT_EQ(tf_grey(255, 255, 255), 255);
  EXPECT_EQ(tf_grey(255, 0, 0), 76);
  EXPECT_EQ(tf_grey(0, 255, 0), 149);
  EXPECT_EQ(tf_grey(0, 0, 255), 29);
}

TEST(Cifar10, ReadsTheBinaryFiles) {
  const Folder folder;
  make_folder(folder.file("cifar-10-batches-bin"));
  write_batches(folder, "cifar-10-batches-bin/");
  const auto splits = load(folder, "{split: file}");
  EXPECT_EQ(splits.train->size(), 90);
  EXPECT_EQ(splits.valid->size(), 10);
  EXPECT_EQ(splits.test->size(), 10);
  EXPECT_EQ(splits.labels.at(3), "cat");
  EXPECT_EQ(splits.train->get(13).tokens, std::vector<int32_t>(1024, 61));
  EXPECT_EQ(splits.train->get(13).targets, std::vector<int32_t>{3});
  EXPECT_EQ(splits.image.height, 32);
  EXPECT_EQ(splits.image.width, 32);
  EXPECT_EQ(splits.checksums.count("data_batch_5.bin"), 1);

  const Folder beside;
  write_batches(beside, "");
  EXPECT_EQ(load(beside, "{split: file}").checksums.at("train"), splits.checksums.at("train"));
  EXPECT_NE(load(beside).checksums.at("train"), splits.checksums.at("train")) << "s4-seed42";
}

TEST(Cifar10, ReadsGreyFiles) {
  const Folder folder;
  folder.write("cifar10_gray_train.bin", records(30, 1));
  folder.write("cifar10_gray_test.bin", records(10, 1));
  const auto splits = load(folder);
  EXPECT_EQ(splits.train->size(), 27);
  EXPECT_EQ(splits.test->get(9).tokens, std::vector<int32_t>(1024, 181));
  EXPECT_EQ(splits.test->get(9).targets, std::vector<int32_t>{9});
  EXPECT_EQ(refusal(folder, "cifar10", "{files: binary}"),
            "cifar-10-batches-bin/data_batch_1.bin: no such file, nor data_batch_1.bin; `longbow "
            "data list cifar10` tells which files belong into data.path");
}

TEST(Cifar10, ReadsAnArchiveOfJpegImagesByNumberThenClass) {
  if (!reads_jpeg()) GTEST_SKIP() << "built without libjpeg";
  const Folder folder;
  std::string archive;
  for (const std::string name : {"train/dog", "train/cat", "test/cat"})
    for (int i = 0; i < 10; ++i)
      archive += tar_member(name + "/000" + std::to_string(i) + ".jpg", flat_jpeg());
  folder.write("cifar10_jpeg.tar", archive + std::string(1024, '\0'));
  const auto splits = load(folder, "{split: file}");
  EXPECT_EQ(splits.train->size(), 18);
  EXPECT_EQ(splits.test->size(), 10);
  for (int64_t i = 0; i < 18; ++i) {
    EXPECT_EQ(splits.labels.at(static_cast<size_t>(splits.train->get(i).targets.at(0))),
              i % 2 ? "dog" : "cat");
    EXPECT_EQ(splits.train->get(i).tokens, std::vector<int32_t>(1024, 1 + pil_grey(200, 100, 50)));
  }
  folder.write("cifar10_jpeg.tar", archive + tar_member("train/lion/0001.jpg", flat_jpeg()));
  EXPECT_EQ(refusal(folder, "cifar10"),
            "cifar10_jpeg.tar: train/lion/0001.jpg: is not an image of CIFAR-10; images are "
            "train/CLASS/NUMBER.jpg and test/CLASS/NUMBER.jpg");
  folder.write("cifar10_jpeg.tar", tar_member("train/cat/0001.jpg", "GIF"));
  EXPECT_EQ(refusal(folder, "cifar10"),
            "cifar10_jpeg.tar: train/cat/0001.jpg: is not a JPEG image, or is corrupt");
  folder.write("cifar10_jpeg.tar", archive);
  EXPECT_EQ(refusal(folder, "cifar10"),
            "cifar10_jpeg.tar: the tar archive is cut off; copy or download the file again");
}

TEST(Cifar10, SaysWhatIsWrong) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "cifar10"),
            "cifar-10-batches-bin/data_batch_1.bin: no such file, nor data_batch_1.bin; `longbow "
            "data list cifar10` tells which files belong into data.path");
  write_batches(folder, "");
  folder.write("data_batch_3.bin", records(2, 3) + "x");
  EXPECT_EQ(
      refusal(folder, "cifar10"),
      "data_batch_3.bin: 6147 bytes are not records of 3073 bytes; a label and an image each; "
      "copy or download the file again");
  folder.write("data_batch_3.bin", records(1, 3) + '\x0a' + std::string(3072, '\0'));
  EXPECT_EQ(refusal(folder, "cifar10"),
            "data_batch_3.bin: the label of record 1 is 10; labels are 0..9");
  folder.write("cifar10_jpeg.tar", "not one");
  EXPECT_EQ(refusal(folder, "cifar10", "{files: jpeg}"),
            "cifar10_jpeg.tar: the tar archive is cut off; copy or download the file again");
}

TEST(Cifar10, HasGreyImages) {
  const auto path = collected("cifar10");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published({.set = "cifar10", .path = path.string()});
  EXPECT_EQ(splits.train->size(), 7200);
  EXPECT_EQ(splits.valid->size(), 800);
  const auto test = classes_in(splits, *splits.test);
  EXPECT_EQ(test.size(), 10u);
  for (const auto& [name, count] : test) EXPECT_EQ(count, 200) << name;
}

// The grey files were made of the first images of each class, so the archive begins with them.
TEST(Cifar10, HasTheSameImagesAsJpeg) {
  const auto path = collected("cifar10");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  if (!reads_jpeg()) GTEST_SKIP() << "built without libjpeg";
  const auto read = [&](const std::string& files) {
    return load_published({.set = "cifar10",
                           .path = path.string(),
                           .options = "{split: file, files: " + files + "}"});
  };
  const auto grey = read("grey"), jpeg = read("jpeg");
  EXPECT_EQ(jpeg.train->size(), 45000);
  EXPECT_EQ(jpeg.valid->size(), 5000);
  EXPECT_EQ(jpeg.test->size(), 10000);
  for (int64_t i = 0; i < 2000; ++i) {
    const auto one = grey.test->get(i), other = jpeg.test->get(i);
    ASSERT_EQ(one.targets, other.targets) << i;
    for (size_t pixel = 0; pixel < one.tokens.size(); ++pixel)
      ASSERT_NEAR(one.tokens[pixel], other.tokens[pixel], 2) << i << " " << pixel;
  }
}

}  // namespace
}  // namespace longbow
