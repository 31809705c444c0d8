#include "longbow/core/error.h"

#include <gtest/gtest.h>

namespace longbow {

TEST(Place, ReadsAsFileAndLine) {
  EXPECT_EQ((Place{"listops.yaml", 12}.str()), "listops.yaml:12");
}

TEST(Place, OfAFlagHasNoLine) {
  EXPECT_EQ((Place{"--set model.rank", 0}.str()), "--set model.rank");
}

TEST(Place, UnknownIsEmpty) {
  EXPECT_EQ((Place{"", 3}.str()), "");
}

TEST(UserError, ReadsPlaceWhatHint) {
  EXPECT_STREQ(UserError({"a.yaml", 3}, "rank is 0", "write 1").what(),
               "a.yaml:3: rank is 0; write 1");
  EXPECT_STREQ(UserError({"a.yaml", 3}, "rank is 0", "").what(), "a.yaml:3: rank is 0");
  EXPECT_STREQ(UserError("rank is 0", "write 1").what(), "rank is 0; write 1");
}

TEST(UserError, IsOneLineWhateverItQuotes) {
  EXPECT_STREQ(UserError("a\nb\tc\x1b[31m").what(), "a\\nb\\x09c\\x1b[31m");
}

TEST(UserError, IsAFewLinesLongWhateverItQuotes) {
  const std::string endless(100000, 'a');
  const std::string message = UserError({endless, 3}, endless, endless).what();
  EXPECT_EQ(message, std::string(400, 'a') + "…: " + std::string(1000, 'a') + "…; " +
                         std::string(1000, 'a') + "…");
}

TEST(Quote, CutsALongTextBetweenCharacters) {
  EXPECT_EQ(quote("abc"), "'abc'");
  EXPECT_EQ(quote(std::string(59, 'a') + "한글"), "'" + std::string(59, 'a') + "…'");
}

TEST(Nearest, ForgivesSwapsCaseAndOneLetter) {
  std::vector<std::string> known = {"rank", "window", "heads", "kv"};
  EXPECT_EQ(nearest("rnak", known), "rank");
  EXPECT_EQ(nearest("Window", known), "window");
  EXPECT_EQ(nearest("head", known), "heads");
  EXPECT_EQ(nearest("kvv", known), "kv");
}

TEST(Nearest, TakesTheClosestAndTheFirstOfEquals) {
  EXPECT_EQ(nearest("performer", {"reformer", "performers"}), "performers");
  EXPECT_EQ(nearest("cat", {"car", "cap"}), "car");
}

TEST(Nearest, DoesNotGuessWildly) {
  EXPECT_EQ(nearest("x", {"y"}), "");
  EXPECT_EQ(nearest("", {"y", ""}), "");
  EXPECT_EQ(nearest("dropout", {"rank"}), "");
  EXPECT_EQ(nearest(std::string(1000000, 'a'), {"rank"}), "");
}

TEST(Suggest, ListsTheChoicesWhenNoneIsNear) {
  EXPECT_EQ(suggest("kvv", {"none", "kv"}), "did you mean 'kv'?");
  EXPECT_EQ(suggest("headwise", {"none", "kv"}), "one of: none, kv");
  EXPECT_EQ(suggest("headwise", {}), "");
}

}  // namespace longbow
