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

TEST_F(ParallelData, ATargetThatMakesRoomForItsEndIsCut) {
  file("t.en", "one\n");
  file("t.de", "eins zwei drei\n");
  const auto cut = [&](const std::string& most) {
    return load("{name: parallel, max_tokens: " + most +
                ", tokenizer: {train: words}, parallel: {train: t, valid: t, test: t}}");
  };
  const auto splits = cut("3");
  EXPECT_EQ(splits.train->get(0).second.size(), 3u);
  EXPECT_EQ(splits.train->get(0).second.back(), splits.end);
  EXPECT_EQ(splits.truncated, 3) << "one in each split";
  EXPECT_EQ(cut("4").truncated, 0);
}

TEST_F(ParallelData, SplitsThatAreScoredKeepTheirTargetsAsTheyWereWritten) {
  file("t.en", "one two three\nfour\n");
  file("t.de", "Eins  zwei, DREI!\nVier\n");
  const auto splits = load(
      "{name: parallel, max_tokens: 3, tokenizer: {train: wordpiece, min_frequency: 1}, "
      "parallel: {train: t, valid: t, test: t}}");
  EXPECT_EQ(splits.train->get(0).reference, std::nullopt);
  for (const auto& split : {splits.valid, splits.test}) {
    EXPECT_EQ(split->get(0).second.size(), 3u) << "it is cut, its reference is not";
    EXPECT_EQ(split->get(0).reference, "Eins  zwei, DREI!");
    EXPECT_EQ(split->get(1).reference, "Vier");
    EXPECT_EQ(split->checksum(), splits.train->checksum()) << "the samples are the same";
  }
}

TEST_F(ParallelData, TheReferenceOfASwappedPairIsItsTarget) {
  file("t.csv", "en,de\nOne,Eins\n");
  const auto splits = load(
      "{name: parallel, tokenizer: {train: words}, "
      "parallel: {train: t.csv, valid: t.csv, test: t.csv, swap: true}}");
  EXPECT_EQ(splits.test->get(0).reference, "One");
}

TEST_F(ParallelData, AFolderBesideTheFilesIsLeftAlone) {
  make_folder(in("t"));
  file("t.en", "one\ntwo\n");
  file("t.de", "eins\nzwei\n");
  const auto splits =
      load("{name: parallel, tokenizer: {train: words}, parallel: {train: t, valid: t, test: t}}");
  EXPECT_EQ(splits.train->size(), 2);
  EXPECT_EQ(splits.checksums.count("t.en"), 1u);
}

TEST_F(ParallelData, ATableMayBePacked) {
  file("t.csv.gz", "en,de\none,eins\n");
  const auto splits = load(
      "{name: parallel, tokenizer: {train: words}, "
      "parallel: {train: t.csv, valid: t.csv, test: t.csv}}");
  EXPECT_EQ(text_of(splits, splits.train->get(0).tokens), "one");
  EXPECT_EQ(splits.checksums.count("t.csv.gz"), 1u);
}

}  // namespace
}  // namespace longbow
