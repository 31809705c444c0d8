#include "longbow/core/option_error.h"

#include <gtest/gtest.h>

namespace longbow {
namespace {

std::string placed(const std::string& key, const std::string& yaml) {
  const auto options = parse_yaml(yaml, "run.yaml");
  try {
    check_options(options, "owner", [&] { require_option(false, key, "is wrong", "mend it"); });
  } catch (const OptionError& error) {
    EXPECT_EQ(error.key(), key);
    return error.what();
  }
  return "";
}

TEST(OptionError, StandsAtTheLineOfItsKey) {
  EXPECT_EQ(placed("rank", "name: x\nrank: 3\n"), "run.yaml:2: owner.rank is wrong; mend it");
  EXPECT_EQ(placed("sparse.group", "name: x\nsparse:\n  rank: 1\n  group: 3\n"),
            "run.yaml:4: owner.sparse.group is wrong; mend it");
}

TEST(OptionError, OfAKeyThatIsNotWrittenStandsAtWhatHoldsIt) {
  EXPECT_EQ(placed("rank", "name: x\nwidth: 3\n"), "run.yaml:1: owner.rank is wrong; mend it");
  EXPECT_EQ(placed("sparse.group", "name: x\nsparse:\n  rank: 1\n"),
            "run.yaml:2: owner.sparse.group is wrong; mend it");
  EXPECT_EQ(placed("", "name: x\n"), "run.yaml:1: owner is wrong; mend it");
}

TEST(OptionError, WithoutAPlaceNamesTheKey) {
  EXPECT_STREQ(OptionError("rank", "is wrong", "mend it").what(), "rank is wrong; mend it");
  EXPECT_STREQ(OptionError("", "nothing fits", "").what(), "nothing fits");
  EXPECT_NO_THROW(require_option(true, "rank", "is wrong", ""));
}

}  // namespace
}  // namespace longbow
