#include <gtest/gtest.h>

#include "tests/data/idx.h"
#include "tests/data/published.h"

namespace longbow {
namespace {

void write_split(const Folder& folder, const std::string& split, uint32_t count) {
  folder.write(split + "-images-idx3-ubyte", idx_images(count));
  folder.write(split + "-labels-idx1-ubyte", idx_labels(count));
}

TEST(Mnist, ReadsImagesAndLabels) {
  const Folder folder;
  write_split(folder, "train", 50);
  write_split(folder, "t10k", 10);
  const auto splits =
      load_published({.set = "mnist", .path = folder.str(), .options = "{split: file}"});
  EXPECT_EQ(splits.train->size(), 45);
  EXPECT_EQ(splits.valid->size(), 5);
  EXPECT_EQ(splits.test->size(), 10);
  EXPECT_EQ(splits.train->get(12).tokens, std::vector<int32_t>(6, 3));
  EXPECT_EQ(splits.train->get(12).targets, std::vector<int32_t>{2});
  EXPECT_EQ(splits.image.height, 2);
  EXPECT_EQ(splits.image.width, 3);
  EXPECT_EQ(splits.labels.at(7), "7");
  EXPECT_EQ(splits.checksums.size(), 3 + 4);
}

TEST(Mnist, DividesTheTestImagesWhereThereAreNoOthers) {
  const Folder folder;
  write_split(folder, "t10k", 50);
  const auto splits = load_published({.set = "mnist", .path = folder.str()});
  EXPECT_EQ(splits.train->size(), 40);
  EXPECT_EQ(splits.valid->size(), 5);
  EXPECT_EQ(splits.test->size(), 5);
}

TEST(Mnist, SaysWhatIsMissingOrWrong) {
  const Folder folder;
  const std::string belongs = "; `longbow data list mnist` tells which files belong into data.path";
  EXPECT_EQ(refusal(folder, "mnist"),
            "train-images-idx3-ubyte: no such file, nor train-images.idx3-ubyte, nor "
            "t10k-images-idx3-ubyte, nor t10k-images.idx3-ubyte" +
                belongs);
  folder.write("train-images-idx3-ubyte", idx_images(50));
  EXPECT_EQ(refusal(folder, "mnist"), "train-labels-idx1-ubyte: no such file" + belongs);
  folder.write("train-labels-idx1-ubyte", idx_labels(50));
  EXPECT_EQ(refusal(folder, "mnist"), "t10k-images-idx3-ubyte: no such file" + belongs);
  write_split(folder, "t10k", 10);
  const std::string again = "; copy or download the file again";
  const auto with = [&](const std::string& name, const std::string& bytes) {
    folder.write(name, bytes);
    return refusal(folder, "mnist");
  };
  EXPECT_EQ(with("t10k-images-idx3-ubyte", idx_labels(10)),
            "t10k-images-idx3-ubyte: is not an IDX file of bytes in 3 dimensions" + again);
  EXPECT_EQ(with("t10k-images-idx3-ubyte", idx_images(10).substr(0, 70)),
            "t10k-images-idx3-ubyte: holds 54 bytes, but the header says 60" + again);
  EXPECT_EQ(with("t10k-images-idx3-ubyte",
                 idx_number(0x803) + idx_number(1) + idx_number(0) + idx_number(3)),
            "t10k-images-idx3-ubyte: dimension 1 is 0" + again);
  EXPECT_EQ(with("t10k-images-idx3-ubyte",
                 idx_number(0x803) + idx_number(2) + idx_number(1) + idx_number(1) + "ab"),
            "t10k-labels-idx1-ubyte: 10 labels for 2 images; the files do not belong together");
  EXPECT_EQ(with("t10k-labels-idx1-ubyte", idx_number(0x801) + idx_number(2) + "\x01\x0a"),
            "t10k-labels-idx1-ubyte: label 1 is 10; labels are 0..9");
  EXPECT_EQ(with("t10k-labels-idx1-ubyte", idx_labels(2)),
            "t10k-images-idx3-ubyte: the images are 1 x 1 pixels, but those of "
            "train-images-idx3-ubyte are 2 x 3");
}

TEST(Mnist, HasTheTestImages) {
  const auto path = collected("mnist_test");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published({.set = "mnist", .path = path.string()});
  EXPECT_EQ(splits.train->size(), 8000);
  EXPECT_EQ(splits.image.width, 28);
  const auto all = classes_in(splits, *splits.train) + classes_in(splits, *splits.valid) +
                   classes_in(splits, *splits.test);
  EXPECT_EQ(all.at("0"), 980);
  EXPECT_EQ(all.at("1"), 1135);
  EXPECT_EQ(all.at("9"), 1009);
}

}  // namespace
}  // namespace longbow
