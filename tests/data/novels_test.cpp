#include <gtest/gtest.h>

#include "tests/data/published.h"

namespace longbow {
namespace {

int64_t tokens_in(const Dataset& data) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < data.size(); ++i) tokens += data.length(i);
  return tokens;
}

void write_splits_of(const Folder& folder) {
  folder.write("train.txt", "=== Austen_Emma_1815 ===\nab\ncd\n=== Bronte_Jane_1847 ===\nxyz\n");
  folder.write("valid.txt", "=== Stevenson_Catriona_1893 ===\nvw\n");
  folder.write("test.txt", "=== Dickens_Twist_1839 ===\ntu\n");
}

TEST(Novels, KeepsNovelsApartUnlessTold) {
  const Folder folder;
  write_splits_of(folder);
  const auto apart = load_published({.set = "novels", .path = folder.str()});
  ASSERT_EQ(apart.train->size(), 2);
  EXPECT_EQ(text_of(apart.train->get(0).tokens), "ab\ncd");
  EXPECT_EQ(text_of(apart.train->get(1).tokens), "xyz");
  EXPECT_EQ(text_of(apart.valid->get(0).tokens), "vw");
  EXPECT_EQ(text_of(apart.test->get(0).tokens), "tu");
  const auto across =
      load_published({.set = "novels", .path = folder.str(), .options = "{across: true}"});
  ASSERT_EQ(across.train->size(), 1);
  EXPECT_EQ(text_of(across.train->get(0).tokens), "ab\ncdxyz");
}

TEST(Novels, EndsANovelWithTheEndTokenOfItsTokenizer) {
  const Folder folder;
  write_splits_of(folder);
  const auto splits = load_published({.set = "novels",
                                      .path = folder.str(),
                                      .tokenizer = "{train: characters, special_tokens: [<eos>]}"});
  ASSERT_GT(splits.end, 0);
  EXPECT_EQ(splits.train->get(0).tokens.back(), splits.end);
}

TEST(Novels, ReadsTheFolderThatIsPublished) {
  const Folder folder;
  std::filesystem::create_directory(folder.file("corpus"));
  for (int i = 0; i < 60; ++i)
    folder.write("corpus/" + std::to_string(i) + ".txt", "novel " + std::to_string(i) + "\n");
  const auto splits = load_published({.set = "novels", .path = folder.str()});
  EXPECT_EQ(splits.train->size() + splits.valid->size() + splits.test->size(), 60);
  EXPECT_GT(splits.valid->size(), 0);
  EXPECT_GT(splits.test->size(), 0);
  EXPECT_EQ(splits.checksums.count("59.txt"), 1u);
}

TEST(Novels, SaysWhatIsMissing) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "novels"),
            "train.txt: no such file; `longbow data list novels` tells which files belong into "
            "data.path");
}

TEST(Novels, HasTheNovelsOfTheCollection) {
  const auto path = collected("english_novels");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits =
      load_published({.set = "novels", .path = path.string(), .options = "{length: 1000000}"});
  // Tokens are the bytes without headings and the line breaks at their ends. A second window of a
  // novel begins with the last token of its first.
  EXPECT_EQ(splits.valid->size(), 1);
  EXPECT_EQ(tokens_in(*splits.valid), 522577);
  EXPECT_EQ(splits.test->size(), 1);
  EXPECT_EQ(splits.train->size(), 27) << "20 novels, of which 7 have more than a million bytes";
  EXPECT_EQ(tokens_in(*splits.train), 17975629 + 7);
}

}  // namespace
}  // namespace longbow
