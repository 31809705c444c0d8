// Folders of pictures as they are published, good ones and broken ones.
#include "longbow/data/sets/pathfinder/folders.h"

#include <gtest/gtest.h>

#include "longbow/corpus/files/png.h"
#include "tests/data/folder.h"

namespace longbow::pathfinder {
namespace {

namespace fs = std::filesystem;
using longbow::Folder;

const Kind kKind = kind_of(32, Level::hard);

std::vector<Picture> some(int64_t first, int64_t count) {
  static const Painter painter(kKind);
  return paint(painter, Stream(1, "folders"), first, count);
}

// Two batches, the second one with two digits.
void fill(const std::string& root) {
  write_batch(root, kKind, Level::hard, 2, some(0, 3));
  write_batch(root, kKind, Level::hard, 10, some(3, 2));
}

TEST(PathfinderFolders, AreReadAsTheyWereWritten) {
  const Folder folder;
  fill(folder.str());
  const auto found = find_folder(folder.str(), 32, Level::hard);
  ASSERT_EQ(found.entries.size(), 5u);
  EXPECT_EQ(found.entries[0].path, "pathfinder32/curv_contour_length_14/imgs/2/sample_0.png");
  EXPECT_EQ(found.entries[3].path, "pathfinder32/curv_contour_length_14/imgs/10/sample_0.png");
  const auto expected = some(0, 5);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(found.entries[i].label, expected[i].label);
    EXPECT_EQ(read_picture(found, found.entries[i], 32), expected[i].pixels);
  }
  const auto lines = folder.read("pathfinder32/curv_contour_length_14/metadata/2.npy");
  EXPECT_EQ(lines.substr(0, lines.find('\n')),
            "imgs/2 sample_0.png 0 " + std::to_string(expected[0].label) + " 1.0 14 4 2 0.5 1 1");
}

TEST(PathfinderFolders, AreFoundInBothPlacesOfTheArchive) {
  for (const auto* inside : {"", "lra_release", "lra_release/lra_release"}) {
    const Folder folder;
    fill((folder.path / inside).string());
    EXPECT_EQ(find_folder(folder.str(), 32, Level::hard).entries.size(), 5u) << inside;
  }
}

TEST(PathfinderFolders, OfTwoCopiesTheInnerOneCounts) {
  const Folder folder;
  fill(folder.file("lra_release"));
  write_batch(folder.file("lra_release/lra_release"), kKind, Level::hard, 0, some(0, 1));
  testing::internal::CaptureStderr();
  EXPECT_EQ(find_folder(folder.str(), 32, Level::hard).entries.size(), 1u);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("has 2 copies"), std::string::npos);
}

TEST(PathfinderFolders, LeaveOutEmptyFilesAndCountThem) {
  const Folder folder;
  fill(folder.str());
  folder.write("pathfinder32/curv_contour_length_14/imgs/2/sample_1.png", "");
  const auto found = find_folder(folder.str(), 32, Level::hard);
  EXPECT_EQ(found.empty, 1);
  ASSERT_EQ(found.entries.size(), 4u);
  EXPECT_TRUE(found.entries[1].path.ends_with("imgs/2/sample_2.png"));
}

TEST(PathfinderFolders, HaveTheNamesOfTheArchive) {
  EXPECT_EQ(folder_name(32, Level::easy), "pathfinder32/curv_baseline");
  EXPECT_EQ(folder_name(64, Level::inter), "pathfinder64/curv_contour_length_9");
  EXPECT_EQ(folder_name(128, Level::hard), "pathfinder128/curv_contour_length_14");
}

TEST(PathfinderFolders, SayWhatIsMissing) {
  const Folder folder;
  const auto found = [&](int64_t size = 32) {
    return error_of([&] { find_folder(folder.str(), size, Level::hard); }, folder.str());
  };
  const std::string kAsk = "; `longbow data list pathfinder` tells what belongs into data.path";
  EXPECT_EQ(error_of([] { find_folder("nowhere", 32, Level::hard); }),
            "nowhere: no such folder; it should hold pathfinder32/curv_contour_length_14");
  EXPECT_EQ(found(), "pathfinder32/curv_contour_length_14: no such folder" + kAsk);
  fill(folder.str());
  EXPECT_EQ(found(64), "pathfinder64/curv_contour_length_14: no such folder" + kAsk);
  const std::string level = "pathfinder32/curv_contour_length_14/";
  folder.write(level + "metadata/notes.txt", "x");
  EXPECT_EQ(found(), level +
                         "metadata/notes.txt: is not a metadata file; they are called 0.npy, "
                         "1.npy, …");
  fs::remove(folder.file(level + "metadata/notes.txt"));
  fs::remove(folder.file(level + "imgs/10/sample_1.png"));
  EXPECT_EQ(found(),
            level + "imgs/10/sample_1.png: no such file; " + level + "metadata/10.npy lists it");
  fs::remove_all(folder.file(level + "metadata"));
  EXPECT_EQ(found(), level + "metadata: no metadata files" + kAsk);
}

TEST(PathfinderFolders, NameTheLineOfBadMetadata) {
  const auto parsed = [](const std::string& text) {
    return error_of([&] { parse_metadata(text, "0.npy", "p"); });
  };
  const std::string good = "imgs/0 sample_0.png 0 1 1.0\n";
  EXPECT_EQ(parsed(good + "\n\n"), "no error");
  EXPECT_EQ(parse_metadata(good, "0.npy", "p")[0].path, "p/imgs/0/sample_0.png");
  EXPECT_EQ(parsed(good + "imgs/0 sample_1.png\n"),
            "0.npy:2: 2 fields, expected at least 4; folder, file, number and label of a picture");
  EXPECT_EQ(parsed("imgs/0 a.png 0 2"), "0.npy:1: label '2' is not 0 or 1");
  for (const auto* path : {"../0 a.png", "imgs/.. a.png", "imgs/0 ../../a.png", "imgs/0/1 a.png"})
    EXPECT_EQ(
        parsed(std::string(path) + " 0 1"),
        "0.npy:1: '" + std::string(path) + "' is no picture of the data; they are in imgs/<batch>");
  EXPECT_EQ(parsed("\x93NUMPY\x01"),
            "0.npy: is an array of NumPy; the Arena's files are text, in spite of their names");
}

TEST(PathfinderFolders, RefusePicturesOfAnotherSize) {
  const Folder folder;
  fill(folder.str());
  const auto found = find_folder(folder.str(), 32, Level::hard);
  folder.write(found.entries[0].path, corpus::to_png({1, 2, {3, 4}}));
  EXPECT_EQ(error_of([&] { read_picture(found, found.entries[0], 32); }, folder.str()),
            found.entries[0].path + ": is 1 x 2 pixels, expected 32 x 32");
}

TEST(PathfinderFolders, ListTheChecksumsOfAllFiles) {
  const Folder folder;
  fill(folder.str());
  const auto found = find_folder(folder.str(), 32, Level::hard);
  const auto listing = checksums_of(found);
  EXPECT_EQ(std::count(listing.begin(), listing.end(), '\n'), 7);
  EXPECT_EQ(listing.substr(0, listing.find('\n')),
            sha256(folder.read(found.metadata[0])) + "  " + found.metadata[0]);
}

TEST(PathfinderFolders, ShowPicturesByTheirLabels) {
  const auto all = some(0, 30);
  const auto sheet = corpus::parse_png(contact_sheet(all, 32), "sheet.png");
  EXPECT_EQ(sheet.width, 8 * 34 + 2 + 6);
  EXPECT_EQ(sheet.height, 8 * 34 + 2);
  const auto at = [&](int label) { return label == 0 ? 2 : 2 + 4 * 34 + 6; };
  for (const int label : {0, 1}) {
    const auto first = std::find_if(all.begin(), all.end(),
                                    [&](const auto& picture) { return picture.label == label; });
    const auto row = sheet.pixels.begin() + (2 + 16) * sheet.width + at(label);
    EXPECT_TRUE(std::equal(row, row + 32, first->pixels.begin() + 16 * 32)) << label;
  }
}

}  // namespace
}  // namespace longbow::pathfinder
