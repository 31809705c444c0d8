#include <gtest/gtest.h>

#include "tests/data/published.h"

namespace longbow {
namespace {

void write_articles(const Folder& folder) {
  folder.write("wiki.train.tokens", " \n = Lobster = \n the H. <unk> 's @-@ the \n");
  folder.write("wiki.valid.tokens", " the crab \n");
  folder.write("wiki.test.tokens", " \n the \n");
}

std::vector<std::string> words_of(const Splits& splits, const Dataset& data) {
  std::vector<std::string> words;
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto tokens = data.get(i).tokens;
    for (size_t at = i == 0 ? 0 : 1; at < tokens.size(); ++at)
      words.push_back(splits.symbols.at(static_cast<size_t>(tokens[at])));
  }
  return words;
}

Published published(const std::string& path, const std::string& options = "{}") {
  return {.set = "wikitext2", .path = path, .options = options, .tokenizer = "{}"};
}

TEST(Wikitext2, TakesTheTokensOfTheFilesAndEndsEveryLine) {
  const Folder folder;
  write_articles(folder);
  const auto splits = load_published(published(folder.str()));
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_of(splits, *splits.train), (Words{"<eos>", "=", "Lobster", "=", "<eos>", "the",
                                                    "H.", "<unk>", "'s", "@-@", "the", "<eos>"}));
  EXPECT_EQ(words_of(splits, *splits.valid), (Words{"the", "<unk>", "<eos>"}));
  EXPECT_EQ(words_of(splits, *splits.test), (Words{"<eos>", "the", "<eos>"}));
}

TEST(Wikitext2, MayHaveAnotherTokenizer) {
  const Folder folder;
  write_articles(folder);
  const auto splits = load_published({.set = "wikitext2",
                                      .path = folder.str(),
                                      .options = "{tokens: tokenizer}",
                                      .tokenizer = "{train: bytes}"});
  EXPECT_EQ(text_of(splits.valid->get(0).tokens), " the crab ");
  EXPECT_EQ(error_of([&] { load_published({.set = "wikitext2", .path = folder.str()}); }),
            "data.tokenizer is not read where data.wikitext2.tokens is published; set "
            "data.wikitext2.tokens to tokenizer, or leave data.tokenizer out");
}

TEST(Wikitext2, SaysWhatIsMissing) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "wikitext2"),
            "wiki.train.tokens: no such file, nor train.txt; `longbow data list wikitext2` tells "
            "which files belong into data.path");
}

TEST(Wikitext2, HasThePublishedTokens) {
  const auto path = collected("wikitext2");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published(published(path.string()));
  EXPECT_EQ(splits.vocabulary, 33278 + 1) << "and padding";
  EXPECT_EQ(words_of(splits, *splits.train).size(), 2088628u);
  EXPECT_EQ(words_of(splits, *splits.valid).size(), 217646u);
  EXPECT_EQ(words_of(splits, *splits.test).size(), 245569u);
}

}  // namespace
}  // namespace longbow
