#include "longbow/corpus/readers/guess_columns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "longbow/core/error.h"
#include "longbow/core/file.h"

namespace longbow::corpus {
namespace {

std::string written_to(const std::string& name, const std::string& contents) {
  const auto path = testing::TempDir() + "guess_columns_" + name;
  write_file(path, contents);
  return path;
}

std::string guessed(const std::string& name, const std::string& contents) {
  const auto options = guess_columns(written_to(name, contents));
  return fmt::format("{}|{}|{}|{}", options.text, options.second, options.label, options.value);
}

TEST(GuessColumns, GoesByTheUsualNames) {
  EXPECT_EQ(guessed("names.csv", "id,Text,label\n1,a long text,x\n2,another,y\n"), "Text||label|");
  EXPECT_EQ(guessed("nli.tsv", "premise\thypothesis\tgold_label\na b\tc d\tneutral\n"),
            "premise|hypothesis|gold_label|");
  EXPECT_EQ(guessed("lines.jsonl", R"({"title": "news", "label": "politics"})"
                                   "\n"),
            "title||label|");
}

TEST(GuessColumns, GoesByWhatTheRowsHoldOtherwise) {
  std::string rows = "n,was,kommentar\n";
  for (int i = 0; i < 20; ++i)
    rows += fmt::format("{},{},der Satz mit der Nummer {}\n", i, i % 2 ? "gut" : "schlecht", i);
  EXPECT_EQ(guessed("german.csv", rows), "kommentar||was|");
}

TEST(GuessColumns, ANumberWithAFractionIsAValue) {
  EXPECT_EQ(guessed("values.csv", "sentence1,sentence2,score\na,b,3.5\nc,d,4\n"),
            "sentence1|sentence2||score");
  EXPECT_EQ(guessed("stars.csv", "review,stars\ngood,5\nbad,1\n"), "review||stars|");
}

TEST(GuessColumns, AsksWhereItCannotTell) {
  const auto path = written_to("none.csv", "a,b\n1,2\n3,4\n");
  try {
    (void)guess_columns(path);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              path + ":1: which of a, b is the text?; write a config by hand: longbow init table");
  }
}

}  // namespace
}  // namespace longbow::corpus
