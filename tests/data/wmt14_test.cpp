#include <gtest/gtest.h>

#include "tests/data/published.h"

namespace longbow {
namespace {

void write_pairs(const Folder& folder, const std::string& name, const std::string& english,
                 const std::string& german) {
  folder.write(name + ".en", english);
  folder.write(name + ".de", german);
}

TEST(Wmt14, TakesThePublishedNamesBeforeTheSample) {
  const Folder folder;
  write_pairs(folder, "sample_tok_train", "a\nb\n", "x\ny\n");
  write_pairs(folder, "sample_tok_val", "c\n", "z\n");
  folder.write("newstest2014_de-en.csv", "de,en\n\"Guten, Tag\",Hello\n");
  const auto sample = load_published({.set = "wmt14", .path = folder.str()});
  EXPECT_EQ(sample.train->size(), 2);
  EXPECT_EQ(text_of(sample.valid->get(0).second), "z");
  EXPECT_EQ(text_of(sample.test->get(0).tokens), "Hello");
  EXPECT_EQ(text_of(sample.test->get(0).second), "Guten, Tag");
  write_pairs(folder, "train", "one\ntwo\nthree\n", "eins\nzwei\ndrei\n");
  write_pairs(folder, "newstest2013", "four\n", "vier\n");
  write_pairs(folder, "newstest2014", "five\n", "fünf\n");
  const auto whole = load_published({.set = "wmt14", .path = folder.str()});
  EXPECT_EQ(whole.train->size(), 3);
  EXPECT_EQ(text_of(whole.valid->get(0).tokens), "four");
  EXPECT_EQ(text_of(whole.test->get(0).second), "fünf");
}

TEST(Wmt14, TakesTheFilesAndLengthsThatOptionsName) {
  const Folder folder;
  write_pairs(folder, "mine", "one\ntwo three four\n", "eins\nzwei\n");
  folder.write("held.csv", "de,en\nvier,four\n");
  const auto splits =
      load_published({.set = "wmt14",
                      .path = folder.str(),
                      .options = "{train: mine, valid: held.csv, test: mine, max_length: 2, swap: "
                                 "true}"});
  EXPECT_EQ(splits.train->size(), 1);
  EXPECT_EQ(text_of(splits.train->get(0).tokens), "eins");
  EXPECT_EQ(text_of(splits.valid->get(0).tokens), "vier");
}

TEST(Wmt14, SaysWhatIsMissing) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "wmt14"),
            "train.en: no such file, nor sample_tok_train.en; `longbow data list wmt14` tells "
            "which files belong into data.path");
  write_pairs(folder, "train", "a\n", "b\n");
  write_pairs(folder, "newstest2013", "a\n", "b\n");
  EXPECT_EQ(refusal(folder, "wmt14"),
            "newstest2014.en: no such file; `longbow data list wmt14` tells which files belong "
            "into data.path");
  EXPECT_EQ(refusal(folder, "wmt14", "{test: mine.csv}"),
            "mine.csv: no such file; `longbow data list wmt14` tells which files belong into "
            "data.path");
}

TEST(Wmt14, HasThePublishedPairs) {
  const auto path = collected("wmt14_en_de");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto raw = load_published({.set = "wmt14", .path = path.string()});
  EXPECT_EQ(raw.train->size(), 10000);
  EXPECT_EQ(raw.valid->size(), 3000);
  EXPECT_EQ(raw.test->size(), 3003);
  const auto tokenized =
      load_published({.set = "wmt14", .path = path.string(), .options = "{test: sample_tok_test}"});
  EXPECT_EQ(tokenized.test->size(), 2737);
}

}  // namespace
}  // namespace longbow
