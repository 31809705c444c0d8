#include <gtest/gtest.h>

#include "tests/data/published.h"

namespace longbow {
namespace {

using Counts = std::map<std::string, int64_t>;

std::string reviews(int count) {
  std::string text = "id\tdocument\tlabel\n";
  for (int i = 0; i < count; ++i)
    text += std::to_string(i) + "\t\"영화 " + std::to_string(i) + "\t" + (i % 2 ? "1" : "0") + "\n";
  return text;
}

TEST(Nsmc, SkipsReviewsWithoutAText) {
  const Folder folder;
  folder.write("ratings_train.txt", reviews(200) + "9\t\t1\n10\t \t0\n");
  folder.write("ratings_test.txt", reviews(3) + "9\t\t1\n");
  const auto splits = load_published({.set = "nsmc", .path = folder.str()});
  EXPECT_EQ(splits.labels, (std::vector<std::string>{"negative", "positive"}));
  EXPECT_EQ(classes_in(splits, *splits.train) + classes_in(splits, *splits.valid),
            (Counts{{"negative", 100}, {"positive", 100}}));
  EXPECT_GT(splits.valid->size(), 0);
  EXPECT_EQ(classes_in(splits, *splits.test), (Counts{{"negative", 2}, {"positive", 1}}));
  EXPECT_EQ(text_of(splits.test->get(1).tokens), "\"영화 1");
}

TEST(Nsmc, SaysWhatIsMissing) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "nsmc"),
            "ratings_train.txt: no such file, nor train.tsv; `longbow data list nsmc` tells which "
            "files belong into data.path");
}

TEST(Nsmc, HasBalancedReviews) {
  const auto path = collected("nsmc_rebuilt");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published({.set = "nsmc", .path = path.string()});
  EXPECT_EQ(classes_in(splits, *splits.train) + classes_in(splits, *splits.valid),
            (Counts{{"negative", 75000}, {"positive", 75000}}));
  EXPECT_EQ(classes_in(splits, *splits.test), (Counts{{"negative", 25000}, {"positive", 25000}}));
}

}  // namespace
}  // namespace longbow
