#include <gtest/gtest.h>

#include <set>

#include "tests/data/published.h"

namespace longbow {
namespace {

// Articles with one paragraph and two questions each; the answer is the number of the article.
std::string articles(int count, const std::string& name) {
  std::string text = R"({"version": "KorQuAD_v1.0", "data": [)";
  for (int i = 0; i < count; ++i) {
    const auto number = std::to_string(i);
    const auto question = R"({"id": "q", "question": "몇?", "answers": [{"text": ")" + number +
                          R"(", "answer_start": 2}]})";
    text += std::string(i ? "," : "") + R"({"title": ")" + name + number +
            R"(", "paragraphs": [{"context": "제 )" + number + R"( 장", "qas": [)" + question +
            ", " + question + "]}]}";
  }
  return text + "]}";
}

std::set<std::string> contexts(const Dataset& data) {
  std::set<std::string> all;
  for (int64_t i = 0; i < data.size(); ++i) all.insert(text_of(data.get(i).second));
  return all;
}

TEST(Korquad, FindsTheAnswerAmongTheTokens) {
  const Folder folder;
  folder.write("KorQuAD_v1.0_train.json", articles(100, "train"));
  folder.write("KorQuAD_v1.0_dev.json", articles(3, "dev"));
  const auto splits = load_published({.set = "korquad", .path = folder.str()});
  EXPECT_EQ(splits.train->size() + splits.valid->size(), 200);
  EXPECT_GT(splits.valid->size(), 0);
  ASSERT_EQ(splits.test->size(), 6);
  const auto sample = splits.test->get(5);
  EXPECT_EQ(text_of(sample.tokens), "몇?");
  EXPECT_EQ(text_of(sample.second), "제 2 장");
  EXPECT_EQ(sample.targets, (std::vector<int32_t>{4, 4})) << "three bytes and a blank before it";
}

// However the file is named, and whether it is packed or not: what is packed is known by its bytes.
TEST(Korquad, SplitsDevByArticleWhenItTrainsOnDev) {
  for (const std::string packing : {"", ".xz", ".gz"}) {
    const Folder folder;
    folder.write("KorQuAD_v1.0_dev.json" + packing, articles(100, "dev"));
    for (const auto& name :
         {std::string("KorQuAD_v1.0_dev.json"), "KorQuAD_v1.0_dev.json" + packing,
          "./KorQuAD_v1.0_dev.json" + packing}) {
      SCOPED_TRACE(name + " of " + packing);
      const auto splits = load_published(
          {.set = "korquad", .path = folder.str(), .options = "{train: " + name + "}"});
      const auto train = contexts(*splits.train), valid = contexts(*splits.valid),
                 test = contexts(*splits.test);
      EXPECT_EQ(splits.train->size() + splits.valid->size() + splits.test->size(), 200);
      EXPECT_EQ(train.size() + valid.size() + test.size(), 100u) << "no article is in two splits";
      EXPECT_FALSE(valid.empty());
      EXPECT_FALSE(test.empty());
    }
  }
}

TEST(Korquad, SaysWhatIsMissing) {
  const Folder folder;
  folder.write("KorQuAD_v1.0_dev.json", articles(1, "dev"));
  EXPECT_EQ(refusal(folder, "korquad"),
            "KorQuAD_v1.0_train.json: no such file; `longbow data list korquad` tells which files "
            "belong into data.path");
}

TEST(Korquad, HasThePublishedQuestions) {
  const auto path = collected("korquad1_dev");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published(
      {.set = "korquad", .path = path.string(), .options = "{train: KorQuAD_v1.0_dev.json}"});
  EXPECT_EQ(splits.train->size() + splits.valid->size() + splits.test->size(), 5774);
  EXPECT_EQ(contexts(*splits.train).size() + contexts(*splits.valid).size() +
                contexts(*splits.test).size(),
            960u)
      << "of 964 paragraphs 3 occur twice and 1 has no question";
}

}  // namespace
}  // namespace longbow
