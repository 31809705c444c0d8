#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/published.h"

namespace longbow {
namespace {

std::string pairs(int count, const std::string& score) {
  std::string text = "[";
  for (int i = 0; i < count; ++i)
    text += std::string(i ? ",\n" : "\n") + R"({"guid": "g", "sentence1": "가 )" +
            std::to_string(i) + R"(", "sentence2": "나", "labels": {"label": )" + score +
            R"(, "real-label": 3.71, "binary-label": 1}})";
  return text + "\n]\n";
}

TEST(KlueSts, ReadsTheScoreOfTwoSentences) {
  const Folder folder;
  folder.write("klue-sts-v1.1_train.json", pairs(200, "3.7"));
  folder.write("klue-sts-v1.1_dev.json", pairs(3, "0"));
  const auto splits = load_published({.set = "klue_sts", .path = folder.str()});
  EXPECT_EQ(splits.train->size() + splits.valid->size(), 200);
  EXPECT_GT(splits.valid->size(), 0);
  ASSERT_EQ(splits.test->size(), 3);
  EXPECT_EQ(splits.train->values(), 1);
  EXPECT_EQ(splits.train->get(0).values, std::vector<float>{3.7f});
  const auto sample = splits.test->get(2);
  EXPECT_EQ(sample.values, std::vector<float>{0});
  EXPECT_EQ(text_of(sample.tokens), "가 2");
  EXPECT_EQ(text_of(sample.second), "나");
}

TEST(KlueSts, SaysWhatIsMissingOrWrong) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "klue_sts"),
            "klue-sts-v1.1_train.json: no such file, nor klue-sts-v1.1_train.reduced.json; "
            "`longbow data list klue_sts` tells which files belong into data.path");
  folder.write("klue-sts-v1.1_train.json", pairs(3, "\"much\""));
  folder.write("klue-sts-v1.1_dev.json", pairs(3, "1"));
  EXPECT_EQ(refusal(folder, "klue_sts"),
            "klue-sts-v1.1_train.json:2: column 'labels.label' is 'much', not a number");
}

std::map<int, int64_t> whole_parts(const Dataset& data) {
  std::map<int, int64_t> counts;
  for (int64_t i = 0; i < data.size(); ++i)
    ++counts[static_cast<int>(std::floor(data.get(i).values.at(0)))];
  return counts;
}

TEST(KlueSts, HasThePublishedScores) {
  const auto path = collected("klue_sts");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published({.set = "klue_sts", .path = path.string()});
  auto train = whole_parts(*splits.train);
  for (const auto& [part, count] : whole_parts(*splits.valid)) train[part] += count;
  EXPECT_EQ(train,
            (std::map<int, int64_t>{{0, 4350}, {1, 906}, {2, 810}, {3, 2852}, {4, 2705}, {5, 45}}));
  EXPECT_EQ(whole_parts(*splits.test),
            (std::map<int, int64_t>{{0, 110}, {1, 92}, {2, 97}, {3, 110}, {4, 104}, {5, 6}}));
}

}  // namespace
}  // namespace longbow
