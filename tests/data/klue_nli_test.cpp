#include <gtest/gtest.h>

#include "tests/data/published.h"

namespace longbow {
namespace {

using Counts = std::map<std::string, int64_t>;

// Three hypotheses for each premise, as KLUE has them.
std::string pairs(int premises, const std::string& label) {
  std::string text = "[";
  for (int i = 0; i < 3 * premises; ++i)
    text += std::string(i ? ",\n" : "\n") + R"({"guid": "g", "premise": "가 )" +
            std::to_string(i / 3) + R"(", "hypothesis": "나 )" + std::to_string(i % 3) +
            R"(", "gold_label": ")" + label + R"(", "author": "neutral", "label2": "neutral"})";
  return text + "\n]\n";
}

TEST(KlueNli, ReadsPairsWithTheirGoldLabel) {
  const Folder folder;
  folder.write("klue-nli-v1.1_train.json", pairs(200, "contradiction"));
  folder.write("klue-nli-v1.1_dev.json", pairs(4, "entailment"));
  const auto splits = load_published({.set = "klue_nli", .path = folder.str()});
  EXPECT_EQ(splits.labels, (std::vector<std::string>{"entailment", "neutral", "contradiction"}));
  EXPECT_EQ(splits.train->size() + splits.valid->size(), 600);
  EXPECT_GT(splits.valid->size(), 0);
  EXPECT_EQ(splits.train->get(0).targets, std::vector<int32_t>{2});
  EXPECT_EQ(classes_in(splits, *splits.test), (Counts{{"entailment", 12}}));
  EXPECT_EQ(text_of(splits.test->get(4).tokens), "가 1");
  EXPECT_EQ(text_of(splits.test->get(4).second), "나 1");
}

TEST(KlueNli, KeepsThePremisesOfItsSplitsApart) {
  const Folder folder;
  folder.write("klue-nli-v1.1_train.json", pairs(200, "neutral"));
  folder.write("klue-nli-v1.1_dev.json", pairs(4, "neutral"));
  const auto splits = load_published({.set = "klue_nli", .path = folder.str()});
  const auto trained = texts_of(*splits.train), validated = texts_of(*splits.valid);
  EXPECT_EQ(trained.size() + validated.size(), 200u);
  for (const auto& premise : validated) EXPECT_FALSE(trained.contains(premise)) << premise;
}

TEST(KlueNli, SaysWhatIsMissing) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "klue_nli"),
            "klue-nli-v1.1_train.json: no such file; `longbow data list klue_nli` tells which "
            "files belong into data.path");
}

TEST(KlueNli, HasThePublishedPairs) {
  const auto path = collected("klue_nli");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published({.set = "klue_nli", .path = path.string()});
  EXPECT_EQ(classes_in(splits, *splits.train) + classes_in(splits, *splits.valid),
            (Counts{{"entailment", 8561}, {"contradiction", 8489}, {"neutral", 7948}}));
  EXPECT_EQ(classes_in(splits, *splits.test),
            (Counts{{"entailment", 1000}, {"contradiction", 1000}, {"neutral", 1000}}));
}

}  // namespace
}  // namespace longbow
