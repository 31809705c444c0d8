#include <fmt/format.h>

#include "tests/data/text_folder.h"

namespace longbow {
namespace {

using LinesData = TextFolder;

TEST_F(LinesData, RunningTextComesInWindows) {
  file("t.txt", "a b c\nd e\nf\n");
  const std::string files = "train: t.txt, valid: t.txt, test: t.txt";
  const auto splits = load("{name: lines, tokenizer: {train: words}, lines: {" + files +
                           ", length: 4, keep_lines: false}}");
  ASSERT_EQ(splits.train->size(), 2);
  EXPECT_EQ(text_of(splits, splits.train->get(0).tokens), "a b c d");
  EXPECT_EQ(text_of(splits, splits.train->get(1).tokens), "d e f");
  const auto apart = load("{name: lines, tokenizer: {train: words}, lines: {" + files +
                          ", length: 4, across: false, keep_lines: false}}");
  ASSERT_EQ(apart.train->size(), 2);
  EXPECT_EQ(text_of(apart, apart.train->get(1).tokens), "d e");
}

TEST_F(LinesData, TheLastLinesOfATextAreItsTest) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += fmt::format("w{}\n", i);
  file("t.txt", text);
  const auto splits = load(
      "{name: lines, tokenizer: {train: words}, lines: {train: t.txt, "
      "valid_fraction: 0.1, test_fraction: 0.2, length: 100}}");
  EXPECT_EQ(splits.train->get(0).tokens.size(), 70u);
  EXPECT_EQ(splits.valid->get(0).tokens.size(), 10u);
  EXPECT_EQ(splits.test->get(0).tokens.size(), 20u);
}

TEST_F(LinesData, AFolderIsAllItsTexts) {
  make_folder(in("train"));
  file("train/b.txt", "c d\n");
  file("train/a.txt", "a b\n");
  file("t.txt", "e f\n");
  const auto splits = load(
      "{name: lines, tokenizer: {train: words}, lines: {train: train, valid: t.txt, test: t.txt, "
      "keep_lines: false}}");
  ASSERT_EQ(splits.train->size(), 1);
  EXPECT_EQ(text_of(splits, splits.train->get(0).tokens), "a b c d");
}

TEST_F(LinesData, IsNotCut) {
  file("t.txt", "a b c d e f g h i j\n");
  const auto config = [](int max_tokens) {
    return fmt::format(
        "{{name: lines, max_tokens: {}, tokenizer: {{train: words}}, lines: {{train: t.txt, "
        "valid: t.txt, test: t.txt, length: 8}}}}",
        max_tokens);
  };
  EXPECT_EQ(message(config(4)),
            "data.max_tokens is 4, which would cut lines samples of up to 8 tokens; lower "
            "data.lines.length instead");
  EXPECT_EQ(caches(), 0) << "nothing was encoded";
  EXPECT_EQ(load(config(8)).max_length, 8);
  EXPECT_EQ(load(config(0)).max_length, 8);
  EXPECT_EQ(caches(), 1) << "max_tokens makes no difference";
}

TEST_F(LinesData, ASplitWithoutSamplesIsNamed) {
  file("t.txt", "a b\n");
  file("v.txt", "a\n");
  EXPECT_EQ(
      message("{name: lines, tokenizer: {train: words}, lines: {train: t.txt, valid: v.txt, "
              "test: t.txt, keep_lines: false}}"),
      in("t.txt") + ": the split valid has no samples; name a file for it, or give more data");
}

}  // namespace
}  // namespace longbow
