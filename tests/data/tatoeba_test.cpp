#include <gtest/gtest.h>

#include "tests/data/published.h"

namespace longbow {
namespace {

TEST(Tatoeba, KeepsTheTranslationsOfASentenceTogether) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 200; ++i)
    for (const auto* word : {"Hallo", "\"Guten Tag"})
      text += "Hi " + std::to_string(i) + ".\t" + word + "\n";
  folder.write("deu.txt", text);
  const auto splits = load_published({.set = "tatoeba", .path = folder.str()});
  EXPECT_EQ(splits.train->size() + splits.valid->size() + splits.test->size(), 400);
  EXPECT_GT(splits.valid->size(), 0);
  EXPECT_GT(splits.test->size(), 0);
  EXPECT_EQ(texts_of(*splits.train).size() + texts_of(*splits.valid).size() +
                texts_of(*splits.test).size(),
            200u);
  EXPECT_EQ(text_of(splits.train->get(1).second), "\"Guten Tag");
}

TEST(Tatoeba, LeavesTheAttributionOut) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "Go.\t가 " + std::to_string(i) + ".\tCC-BY 2.0 (France)\n";
  folder.write("kor.txt", text);
  const auto splits = load_published(
      {.set = "tatoeba", .path = folder.str(), .options = "{language: kor, swap: true}"});
  EXPECT_TRUE(text_of(splits.train->get(0).tokens).starts_with("가 "));
  EXPECT_EQ(text_of(splits.train->get(0).second), "Go.");
}

TEST(Tatoeba, SaysWhatIsMissing) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "tatoeba", "{language: fra}"),
            "fra.txt: no such file; `longbow data list tatoeba` tells which files belong into "
            "data.path");
}

TEST(Tatoeba, HasThePublishedSentences) {
  const auto path = collected("tatoeba");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto german = load_published({.set = "tatoeba", .path = path.string()});
  EXPECT_EQ(german.train->size() + german.valid->size() + german.test->size(), 169813);
  EXPECT_EQ(texts_of(*german.train).size() + texts_of(*german.valid).size() +
                texts_of(*german.test).size(),
            135534u);
  const auto korean =
      load_published({.set = "tatoeba", .path = path.string(), .options = "{language: kor}"});
  EXPECT_EQ(korean.train->size() + korean.valid->size() + korean.test->size(), 3798);
}

}  // namespace
}  // namespace longbow
