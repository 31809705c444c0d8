#include <gtest/gtest.h>

#include "longbow/core/folder.h"
#include "tests/data/published.h"

namespace longbow {
namespace {

using Counts = std::map<std::string, int64_t>;

// Four reviews a class and a split, in folders as they are published.
void write_folders(const Folder& folder, const std::string& root) {
  for (const std::string split : {"train", "test"})
    for (const std::string side : {"pos", "neg"}) {
      const auto path = root + split + "/" + side;
      make_folder(folder.file(path));
      for (int i = 0; i < 4; ++i)
        folder.write(path + "/" + std::to_string(i) + (side == "pos" ? "_9.txt" : "_2.txt"),
                     split + " " + side + " " + std::to_string(i) + "<br />\tend");
    }
}

std::string table(const std::string& split, int count) {
  std::string text = "label\tid\trating\ttext\n";
  for (int i = 0; i < count; ++i)
    text += std::to_string(i % 2) + "\t" + std::to_string(i) + "\t" + (i % 2 ? "8" : "3") + "\t" +
            split + " \"review\" " + std::to_string(i) + "\n";
  return text;
}

Splits load(const Folder& folder, const std::string& options = "{}") {
  return load_published({.set = "imdb", .path = folder.str(), .options = options});
}

TEST(Imdb, ReadsTheFoldersAsPublishedFromAboveOrWithin) {
  const Folder folder;
  write_folders(folder, "aclImdb/");
  make_folder(folder.file("aclImdb/train/unsup"));
  folder.write("aclImdb/train/unsup/0_0.txt", "not labelled");
  const auto splits = load(folder, "{valid: test}");
  EXPECT_EQ(splits.labels, (std::vector<std::string>{"negative", "positive"}));
  EXPECT_EQ(classes_in(splits, *splits.train), (Counts{{"negative", 4}, {"positive", 4}}));
  EXPECT_EQ(text_of(splits.train->get(0).tokens), "train neg 0<br />\tend") << "bytes as they are";
  EXPECT_EQ(splits.train->get(0).tokens.front(), 't' + 1);
  EXPECT_EQ(text_of(splits.test->get(7).tokens), "test pos 3<br />\tend");
  EXPECT_EQ(splits.vocabulary, 257);
  EXPECT_EQ(splits.checksums.count("aclImdb/train/pos"), 1);
  EXPECT_EQ(splits.checksums.size(), 3 + 4) << "splits and folders, not files";

  const auto within =
      load_published({.set = "imdb", .path = folder.file("aclImdb"), .options = "{valid: test}"});
  EXPECT_EQ(within.checksums.at("train"), splits.checksums.at("train"));
}

TEST(Imdb, ReadsTables) {
  const Folder folder;
  folder.write("train.tsv", table("train", 400));
  folder.write("test.tsv", table("test", 3));
  const auto splits = load(folder);
  EXPECT_EQ(classes_in(splits, *splits.train) + classes_in(splits, *splits.valid),
            (Counts{{"negative", 200}, {"positive", 200}}));
  EXPECT_NEAR(static_cast<double>(splits.valid->size()), 40, 20) << "a tenth is held out";
  EXPECT_EQ(classes_in(splits, *splits.test), (Counts{{"negative", 2}, {"positive", 1}}));
  EXPECT_EQ(text_of(splits.test->get(1).tokens), "test \"review\" 1");
  const auto compatible = load(folder, "{valid: test}");
  EXPECT_EQ(compatible.train->size(), 400);
  EXPECT_EQ(compatible.checksums.at("valid"), compatible.checksums.at("test"));
}

TEST(Imdb, SaysWhatIsMissingOrWrong) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "imdb"),
            "aclImdb/train: no such file, nor train, nor train.tsv; `longbow data list imdb` tells "
            "which files belong into data.path");
  write_folders(folder, "");
  std::filesystem::remove_all(folder.file("test/neg"));
  EXPECT_EQ(refusal(folder, "imdb"),
            "test/neg: no such folder; it should hold reviews, <id>_<rating>.txt");
  make_folder(folder.file("test/neg"));
  EXPECT_EQ(refusal(folder, "imdb", "{valid: test}"),
            "test/neg: no text files in this folder; it should hold *.txt, *.txt.gz or *.txt.xz");

  const Folder tables;
  tables.write("train.tsv", table("train", 4) + "2\t9\t5\tneither\n");
  tables.write("test.tsv", table("test", 4));
  EXPECT_EQ(refusal(tables, "imdb"), "train.tsv:6: label '2' is not in label_map; one of: 0, 1");
}

TEST(Imdb, HasAllReviews) {
  const auto path = collected("imdb");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published({.set = "imdb", .path = path.string()});
  EXPECT_EQ(classes_in(splits, *splits.train) + classes_in(splits, *splits.valid),
            (Counts{{"negative", 12500}, {"positive", 12500}}));
  EXPECT_EQ(classes_in(splits, *splits.test), (Counts{{"negative", 12500}, {"positive", 12500}}));
  EXPECT_NEAR(static_cast<double>(splits.valid->size()), 2500, 150);
}

}  // namespace
}  // namespace longbow
