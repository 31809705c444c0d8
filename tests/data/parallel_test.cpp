#include "tests/data/text_folder.h"

namespace longbow {
namespace {

using ParallelData = TextFolder;

TEST_F(ParallelData, TranslationsEndWithAToken) {
  file("t.en", "one\ntwo two\n");
  file("t.de", "eins\nzwei zwei\n");
  const auto splits = load(
      "{name: parallel, tokenizer: {train: words}, "
      "parallel: {train: t, valid: t, test: t}}");
  const auto sample = splits.train->get(1);
  EXPECT_EQ(text_of(splits, sample.tokens), "two two");
  ASSERT_EQ(sample.second.size(), 3u);
  EXPECT_EQ(sample.second.back(), splits.end);
  EXPECT_NE(splits.begin, splits.end);
  EXPECT_LT(std::max(splits.begin, splits.end), splits.vocabulary);
  EXPECT_EQ(splits.second_vocabulary, 0);
}

TEST_F(ParallelData, AFileThatIsNamedWholeIsATable) {
  file("t.csv", "en,de\none,eins\ntwo two,zwei zwei\n");
  const auto splits = load(
      "{name: parallel, tokenizer: {train: words}, "
      "parallel: {train: t.csv, valid: t.csv, test: t.csv}}");
  ASSERT_EQ(splits.train->size(), 2);
  EXPECT_EQ(text_of(splits, splits.train->get(1).tokens), "two two");
}

TEST_F(ParallelData, EachSideMayHaveATokenizerOfItsOwn) {
  file("t.en", "one\ntwo two\n");
  file("t.de", "eins\nzwei zwei\n");
  const auto splits = load(
      "{name: parallel, tokenizer: {train: words}, "
      "parallel: {train: t, valid: t, test: t, shared: false}}");
  ASSERT_TRUE(splits.second_codec);
  EXPECT_EQ(splits.codec->find({"zwei"}), 0);
  EXPECT_EQ(splits.second_codec->find({"two"}), 0);
  EXPECT_EQ(splits.second_vocabulary, std::ssize(splits.second_symbols));
  EXPECT_LT(std::max(splits.begin, splits.end), splits.second_vocabulary);
}

}  // namespace
}  // namespace longbow
