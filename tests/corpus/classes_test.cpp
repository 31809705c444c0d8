#include "longbow/corpus/readers/classes.h"

#include <gtest/gtest.h>

namespace longbow::corpus {
namespace {

std::vector<std::string> sorted(const std::vector<std::string>& labels) {
  ClassNames names;
  for (const auto& label : labels) names.add(label);
  return names.sorted();
}

TEST(ClassNames, AreSortedWhateverTheOrderOfTheRecords) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(sorted({"no", "yes", "no", "Maybe"}), (Names{"Maybe", "no", "yes"}));
  EXPECT_EQ(sorted({"10", "2", "1", "-1"}), (Names{"-1", "1", "2", "10"})) << "numbers by value";
  EXPECT_EQ(sorted({"10", "2", "x"}), (Names{"10", "2", "x"})) << "not all are numbers";
  EXPECT_EQ(sorted({}), Names());
}

}  // namespace
}  // namespace longbow::corpus
