#include <gtest/gtest.h>

#include "tests/data/published.h"

namespace longbow {
namespace {

// The running text that the windows of a split hold: each begins with the last token before it.
std::string running(const Splits& splits, const Dataset& data) {
  std::string text;
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto tokens = data.get(i).tokens;
    for (size_t at = i == 0 ? 0 : 1; at < tokens.size(); ++at)
      text += splits.symbols.at(static_cast<size_t>(tokens[at]));
  }
  return text;
}

TEST(Shakespeare, CutsOneTextInOrderWithItsLineBreaks) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 20; ++i) text += "Speak.\nNo\n";
  folder.write("input.txt", text);
  const auto splits = load_published({.set = "shakespeare",
                                      .path = folder.str(),
                                      .options = "{valid_fraction: 0.1, test_fraction: 0.05, "
                                                 "length: 16}",
                                      .tokenizer = "{train: characters}"});
  EXPECT_EQ(running(splits, *splits.train), text.substr(0, 170));
  EXPECT_EQ(running(splits, *splits.valid), text.substr(170, 20));
  EXPECT_EQ(running(splits, *splits.test), text.substr(190));
  EXPECT_EQ(splits.max_length, 16);
}

TEST(Shakespeare, SaysWhatIsMissing) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "shakespeare"),
            "input.txt: no such file; `longbow data list shakespeare` tells which files belong "
            "into data.path");
}

TEST(Shakespeare, HasThePublishedCharacters) {
  const auto path = collected("tinyshakespeare");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published(
      {.set = "shakespeare", .path = path.string(), .tokenizer = "{train: characters}"});
  EXPECT_EQ(splits.vocabulary, 65 + 2) << "characters, padding and unknown";
  const auto train = running(splits, *splits.train), valid = running(splits, *splits.valid),
             test = running(splits, *splits.test);
  EXPECT_EQ(train.size() + valid.size() + test.size(), 1115394u);
  EXPECT_EQ(train.size(), 1003854u) << "0.9 of them";
  EXPECT_TRUE(train.starts_with("First Citizen:\nBefore we proceed"));
}

}  // namespace
}  // namespace longbow
