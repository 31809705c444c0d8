#include "longbow/data/sets/pathfinder.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "longbow/data/encoding/cache.h"
#include "longbow/data/readers/manifest.h"
#include "longbow/data/readers/torch_permutation.h"
#include "longbow/data/sets/pathfinder/folders.h"
#include "tests/data/folder.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;
const std::string kLevel = "pathfinder32/curv_contour_length_14/";

class Pathfinder : public testing::Test {
 protected:
  Pathfinder() { setenv("LONGBOW_CACHE", folder.file("cache").c_str(), 1); }
  ~Pathfinder() override { unsetenv("LONGBOW_CACHE"); }
  DataConfig data(const std::string& path = "", const std::string& options = "{}") const {
    return {.name = "pathfinder",
            .path = path,
            .seed = 5,
            .cache = folder.file("cache"),
            .options = parse_yaml(options, "a.yaml")};
  }
  Splits loaded(const std::string& options = "{}") const {
    return load_data(data(folder.file("made"), options));
  }
  void make(const std::string& options = "{train: 12, valid: 4, test: 4}") const {
    make_data("pathfinder", folder.file("made"), parse_yaml(options, "a.yaml"), 5);
  }
  std::string refused() const {
    return error_of([&] { loaded(); }, folder.str());
  }
  const Folder folder;
};

TEST_F(Pathfinder, IsPixelsRowByRowAndTwoClasses) {
  const auto splits = load_data(data("", "{train: 3, valid: 1, test: 2}"));
  EXPECT_EQ(splits.vocabulary, 257);
  EXPECT_EQ(splits.classes, 2);
  EXPECT_EQ(splits.labels, (std::vector<std::string>{"apart", "joined"}));
  EXPECT_EQ(splits.max_length, 1024);
  EXPECT_EQ(splits.test->size(), 2);
  const pathfinder::Painter painter(pathfinder::kind_of(32, pathfinder::Level::hard));
  const auto expected = painter.paint(Stream(5, "pathfinder/train").at(2));
  const auto sample = splits.train->get(2);
  EXPECT_EQ(sample.targets, std::vector<int32_t>{expected.label});
  for (size_t i = 0; i < 1024; ++i) ASSERT_EQ(sample.tokens[i], expected.pixels[i] + 1);
}

TEST_F(Pathfinder, IsMadeOnceAndThenCached) {
  const auto config = data("", "{train: 3, valid: 1, test: 2}");
  const auto first = load_data(config);
  const auto entries = cached_data(config.cache);
  ASSERT_EQ(entries.size(), 1u);
  const auto card = fs::path(config.cache) / entries[0].name / "train/images.json";
  const auto made = fs::last_write_time(card);
  EXPECT_EQ(load_data(config).checksums, first.checksums);
  EXPECT_EQ(fs::last_write_time(card), made);
  auto other = config;
  other.seed = 6;
  EXPECT_NE(load_data(other).checksums, first.checksums);
  EXPECT_EQ(cached_data(config.cache).size(), 2u);
  EXPECT_EQ(load_data(data("", "{train: 1, valid: 1, test: 2}")).checksums.at("test"),
            first.checksums.at("test"))
      << "a smaller training set keeps the test set";
}

TEST_F(Pathfinder, IsNotCut) {
  auto config = data("", "{train: 1, valid: 1, test: 1}");
  config.max_tokens = 1000;
  EXPECT_EQ(error_of([&] { load_data(config); }),
            "data.max_tokens is 1000, which would cut pathfinder samples of up to 1024 tokens; a "
            "path may lead anywhere; choose a smaller size instead");
  EXPECT_EQ(error_of([&] { load_data(data("", "{size: 33}")); }),
            "a.yaml:1: data.pathfinder.size is 33, but there are no such pictures; one of: 32, 64, "
            "128, 256");
}

TEST_F(Pathfinder, IsReadAsItWasMade) {
  make();
  const auto made = load_data(data("", "{train: 12, valid: 4, test: 4}")), read = loaded();
  for (const auto* split : {"train", "valid", "test"})
    EXPECT_EQ(read.checksums.at(split), made.checksums.at(split));
  const auto lines = verify(folder.file("made"));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with("images.sha256: 20 samples, ")) << lines[0];
  EXPECT_EQ(lines[1], "labels: compared by checksum; samples do not tell them");
  EXPECT_TRUE(fs::exists(folder.file("made/contact_sheet.png")));
}

// Without a manifest it is a published folder.
TEST_F(Pathfinder, IsPartedAsByS4OrInOrder) {
  make();
  fs::remove(folder.file("made/manifest.json"));
  const auto whole = pathfinder::find_folder(folder.file("made"), 32, pathfinder::Level::hard);
  const auto order = torch_permutation(20, 42);
  const auto shuffled = loaded(), plain = loaded("{split: order}");
  const auto picture = [&](int64_t i) {
    return pathfinder::read_picture(whole, whole.entries[static_cast<size_t>(i)], 32);
  };
  const auto expect_picture = [&](const Dataset& split, int64_t i, int64_t of) {
    const auto pixels = picture(of);
    const auto tokens = split.get(i).tokens;
    for (size_t p = 0; p < pixels.size(); ++p) ASSERT_EQ(tokens[p], pixels[p] + 1);
  };
  for (const auto* splits : {&shuffled, &plain}) {
    EXPECT_EQ(splits->train->size(), 16);
    EXPECT_EQ(splits->valid->size(), 2);
    EXPECT_EQ(splits->test->size(), 2);
  }
  expect_picture(*shuffled.train, 3, order[3]);
  expect_picture(*shuffled.valid, 1, order[17]);
  expect_picture(*shuffled.test, 0, order[18]);
  expect_picture(*plain.train, 3, 3);
  expect_picture(*plain.test, 1, 19);
}

TEST_F(Pathfinder, FindsFilesThatAreNotAsTheyWereMade) {
  make();
  const std::string file = "made/" + kLevel + "imgs/0/sample_3.png";
  const auto before = folder.read(file);
  const std::string hint = "; the file was cut or changed; make it again with `longbow data make`";
  folder.write(file, before.substr(0, 60));
  EXPECT_EQ(refused(),
            "made/images.sha256:5: the sha256 of the file is another one, or the file "
            "is missing" +
                hint);
  folder.write(file, "");
  testing::internal::CaptureStderr();
  EXPECT_EQ(refused(),
            "made/images.sha256:5: the sha256 of the file is another one, or the file "
            "is missing" +
                hint);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("1 picture is an empty file and left out"),
            std::string::npos);
  folder.write(file, before);
  EXPECT_EQ(refused(), "no error");
  folder.write("made/images.sha256", folder.read("made/images.sha256") + "x");
  EXPECT_EQ(refused(), "made/images.sha256: its sha256 is not the one in manifest.json" + hint);
}

TEST_F(Pathfinder, FindsBrokenPicturesOfPublishedFolders) {
  make();
  fs::remove(folder.file("made/manifest.json"));
  const std::string file = "made/" + kLevel + "imgs/0/sample_3.png";
  folder.write(file, folder.read(file).substr(0, 60));
  EXPECT_EQ(refused(), file + ": the PNG data is cut off; copy or download the file again");
  EXPECT_TRUE(cached_data(folder.file("cache")).empty()) << "nothing half-made stays";
}

TEST_F(Pathfinder, IsNotWrittenOverAnother) {
  make();
  EXPECT_EQ(error_of([&] { make(); }, folder.str()),
            "made/pathfinder32/curv_contour_length_14: exists already; remove it, or give another "
            "folder");
}

TEST_F(Pathfinder, NeedsTenPicturesToPart) {
  make("{train: 3, valid: 3, test: 3}");
  fs::remove(folder.file("made/manifest.json"));
  EXPECT_EQ(refused(),
            "made/" + kLevel + "metadata/0.npy: 9 pictures are too few for three splits");
}

// More than one batch, with the border between two splits inside one.
TEST_F(Pathfinder, IsWrittenInBatchesOfAThousand) {
  make("{train: 990, valid: 20, test: 5, level: easy}");
  const std::string level = "made/pathfinder32/curv_baseline/";
  const auto lines = [&](const std::string& file) {
    const auto text = folder.read(level + file);
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines("metadata/0.npy"), 1000);
  EXPECT_EQ(lines("metadata/1.npy"), 15);
  EXPECT_EQ(loaded().valid->size(), 20);
}

}  // namespace
}  // namespace longbow
