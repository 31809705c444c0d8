#include "longbow/data/encoding/text_data.h"

#include <fmt/format.h>

#include <cstdlib>

#include "tests/data/text_folder.h"

namespace longbow {
namespace {

using TextData = TextFolder;

std::string rows(int64_t count) {
  std::string text = "text,label\n";
  for (int64_t i = 0; i < count; ++i)
    text +=
        fmt::format("row {} is {},{}\n", i, i % 3 == 0 ? "red" : "blue", i % 3 == 0 ? "r" : "b");
  return text;
}

constexpr const char* kTable = "{name: table, tokenizer: {train: words}, table: {train: t.csv}}";

TEST_F(TextData, TheTokenizerIsTrainedOnTheTrainingSplitOnly) {
  file("t.csv", rows(10));
  file("v.csv", "text,label\nrow 0 is zebra,r\n");
  const auto splits = load(
      "{name: table, tokenizer: {train: words}, table: {train: t.csv, valid: v.csv, test: v.csv}}");
  EXPECT_EQ(splits.codec->find({"zebra"}), 0);
  EXPECT_GT(splits.codec->find({"blue"}), 0);
}

TEST_F(TextData, WhatWasEncodedIsReadFromTheCache) {
  file("t.csv", rows(50));
  const auto first = load(kTable);
  EXPECT_EQ(caches(), 1);
  const auto again = load(kTable);
  EXPECT_EQ(caches(), 1);
  EXPECT_EQ(first.checksums, again.checksums);
  EXPECT_EQ(first.train->get(3).tokens, again.train->get(3).tokens);
  EXPECT_EQ(first.symbols, again.symbols);
  file("t.csv", rows(51));
  (void)load(kTable);
  EXPECT_EQ(caches(), 2) << "other contents of the same file";
  (void)load("{name: table, tokenizer: {train: characters}, table: {train: t.csv}}");
  EXPECT_EQ(caches(), 3) << "another tokenizer";
}

TEST_F(TextData, AFailureLeavesNoCache) {
  file("t.csv", "text,label\nfine,a\nbroken\n");
  EXPECT_NE(message(kTable), "no error");
  EXPECT_EQ(caches(), 0);
}

TEST(CacheFolder, IsTheFirstThatIsSet) {
  const auto* own = std::getenv("LONGBOW_CACHE");
  const std::string before = own ? own : "";
  setenv("LONGBOW_CACHE", "/somewhere", 1);
  EXPECT_EQ(cache_folder("given"), "given");
  EXPECT_EQ(cache_folder(""), "/somewhere");
  unsetenv("LONGBOW_CACHE");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(cache_folder(""), "/xdg/longbow");
  unsetenv("XDG_CACHE_HOME");
  if (own) setenv("LONGBOW_CACHE", before.c_str(), 1);
}

}  // namespace
}  // namespace longbow
