#include <gtest/gtest.h>

#include "tests/data/published.h"

namespace longbow {
namespace {

void write_pairs(const Folder& folder, const std::string& name, int count) {
  std::string english, german;
  for (int i = 0; i < count; ++i) {
    english += "Two dogs " + std::to_string(i) + "\n";
    german += "Zwei Hunde " + std::to_string(i) + "\n";
  }
  folder.write(name + ".en", english);
  folder.write(name + ".de", german);
}

TEST(Multi30k, PairsLinesAndChoosesItsTestSet) {
  const Folder folder;
  write_pairs(folder, "train", 5);
  write_pairs(folder, "val", 3);
  write_pairs(folder, "test_2016_flickr", 2);
  write_pairs(folder, "test_2018_flickr", 4);
  const auto splits = load_published({.set = "multi30k", .path = folder.str()});
  EXPECT_EQ(splits.train->size(), 5);
  EXPECT_EQ(splits.valid->size(), 3);
  EXPECT_EQ(splits.test->size(), 2);
  EXPECT_EQ(text_of(splits.train->get(4).tokens), "Two dogs 4");
  EXPECT_EQ(text_of(splits.train->get(4).second), "Zwei Hunde 4");
  EXPECT_EQ(splits.checksums.count("val.de"), 1u);
  const auto other = load_published(
      {.set = "multi30k", .path = folder.str(), .options = "{test: test_2018_flickr, swap: true}"});
  EXPECT_EQ(other.test->size(), 4);
  EXPECT_EQ(text_of(other.test->get(0).tokens), "Zwei Hunde 0");
}

TEST(Multi30k, SaysWhatIsMissing) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "multi30k"),
            "train.en: no such file; `longbow data list multi30k` tells which files belong into "
            "data.path");
  folder.write("train.en", "a\n");
  EXPECT_EQ(refusal(folder, "multi30k"),
            "train.de: no such file; `longbow data list multi30k` tells which files belong into "
            "data.path");
}

TEST(Multi30k, HasThePublishedPairs) {
  const auto path = collected("multi30k_en_de");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const std::pair<const char*, int64_t> tests[] = {{"test_2016_flickr", 1000},
                                                   {"test_2017_flickr", 1000},
                                                   {"test_2017_mscoco", 461},
                                                   {"test_2018_flickr", 1071}};
  for (const auto& [name, size] : tests) {
    const auto splits = load_published(
        {.set = "multi30k", .path = path.string(), .options = "{test: " + std::string(name) + "}"});
    EXPECT_EQ(splits.train->size(), 29000);
    EXPECT_EQ(splits.valid->size(), 1014);
    EXPECT_EQ(splits.test->size(), size) << name;
  }
}

}  // namespace
}  // namespace longbow
