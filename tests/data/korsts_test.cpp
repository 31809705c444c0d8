#include <gtest/gtest.h>

#include "tests/data/published.h"

namespace longbow {
namespace {

const std::string kHeader = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n";

std::string row(const std::string& score, const std::string& first, const std::string& second) {
  return "main-captions\tMSRvid\t2012\t0001\t" + score + "\t" + first + "\t" + second + "\n";
}

TEST(Korsts, ReadsTabsAndTakesQuotesAsTheyAre) {
  const Folder folder;
  folder.write("sts-train.tsv", kHeader + row("5.000", "\"그는", "그가\"") + row("2.5", "a", "b"));
  folder.write("sts-dev.tsv", kHeader + row("0.000", "c", "d"));
  folder.write("sts-test.tsv", kHeader + row("1.250", "e", "f"));
  const auto splits = load_published({.set = "korsts", .path = folder.str()});
  ASSERT_EQ(splits.train->size(), 2);
  EXPECT_EQ(text_of(splits.train->get(0).tokens), "\"그는");
  EXPECT_EQ(text_of(splits.train->get(0).second), "그가\"");
  EXPECT_EQ(splits.train->get(1).values, std::vector<float>{2.5f});
  EXPECT_EQ(splits.valid->get(0).values, std::vector<float>{0});
  EXPECT_EQ(splits.test->get(0).values, std::vector<float>{1.25f});
}

TEST(Korsts, SaysWhatIsMissing) {
  const Folder folder;
  folder.write("sts-train.tsv", kHeader + row("5", "a", "b"));
  EXPECT_EQ(refusal(folder, "korsts"),
            "sts-dev.tsv: no such file; `longbow data list korsts` tells which files belong into "
            "data.path");
}

TEST(Korsts, HasThePublishedPairs) {
  const auto path = collected("kornlu");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published({.set = "korsts", .path = path.string()});
  EXPECT_EQ(splits.train->size(), 5749);
  EXPECT_EQ(splits.valid->size(), 1500);
  EXPECT_EQ(splits.test->size(), 1379);
  for (int64_t i = 0; i < splits.train->size(); ++i) {
    const auto score = splits.train->get(i).values.at(0);
    ASSERT_TRUE(score >= 0 && score <= 5) << i;
  }
}

}  // namespace
}  // namespace longbow
