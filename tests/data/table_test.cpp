#include "longbow/data/samples/joined.h"
#include "tests/data/text_folder.h"

namespace longbow {
namespace {

using TableData = TextFolder;

TEST_F(TableData, ATableBecomesSamplesWithNamedClasses) {
  file("t.csv", rows(200));
  const auto splits = load(kTable);
  EXPECT_EQ(splits.labels, (std::vector<std::string>{"b", "r"}));
  EXPECT_EQ(splits.classes, 2);
  EXPECT_EQ(splits.train->size() + splits.valid->size() + splits.test->size(), 200);
  EXPECT_GT(splits.valid->size(), 5);
  for (int64_t i = 0; i < splits.test->size(); ++i) {
    const auto sample = splits.test->get(i);
    const bool red = text_of(splits, sample.tokens).find("red") != std::string::npos;
    EXPECT_EQ(splits.labels[static_cast<size_t>(sample.targets.at(0))], red ? "r" : "b");
  }
}

TEST_F(TableData, ALabelThatOnlyTheTestHasIsNamed) {
  file("t.csv", rows(20));
  file("v.csv", "text,label\nrow,r\nrow,bb\n");
  EXPECT_EQ(message("{name: table, tokenizer: {train: words}, "
                    "table: {train: t.csv, valid: t.csv, test: v.csv}}"),
            in("v.csv") + ":3: label 'bb' does not occur in the training split; did you mean 'b'?");
}

TEST_F(TableData, AMissingFileIsNamed) {
  EXPECT_EQ(message(kTable), in("t.csv") + ": no such file; nor t.csv.xz or t.csv.gz");
}

TEST_F(TableData, TextsAreFramedAndPairsJoinedAsBertDoes) {
  file("t.csv", "a,b,label\none two,three,x\nfour,five six,y\n");
  const auto splits = load(
      "{name: table, tokenizer: {train: wordpiece, min_frequency: 1}, "
      "table: {train: t.csv, valid: t.csv, test: t.csv, text: a, second: b}}");
  ASSERT_GT(splits.frame.first, 0);
  ASSERT_GT(splits.frame.last, 0);
  const auto both = joined(splits, Answers::classes);
  const auto sample = both.train->get(0);
  std::string shown;
  for (const auto id : sample.tokens) shown += both.symbols[static_cast<size_t>(id)] + " ";
  EXPECT_EQ(shown, "[CLS] one two [SEP] three [SEP] ");
  EXPECT_EQ(sample.segments, (std::vector<int32_t>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(both.vocabulary, splits.vocabulary);
  EXPECT_EQ(both.max_length, 6);
}

TEST_F(TableData, NumbersAreValues) {
  file("t.tsv", "text\tscore\nhalf\t0.5\nminus two\t-2\n");
  const auto splits = load(
      "{name: table, tokenizer: {train: words}, "
      "table: {train: t.tsv, valid: t.tsv, test: t.tsv, value: score}}");
  EXPECT_EQ(splits.train->get(0).values, std::vector<float>{0.5F});
  EXPECT_EQ(splits.train->get(1).values, std::vector<float>{-2});
  EXPECT_EQ(splits.train->targets(), 0);
  EXPECT_EQ(find_data_source("table").objective_for(parse_yaml("{value: score}", "test")),
            "regression");
}

TEST_F(TableData, RowsWithoutWhatIsToBeLearntAreNamed) {
  file("t.csv", "text,score,label\na b c,1.5,x\nd e f,,\n");
  const auto mistake = [&](const std::string& columns) {
    return message("{name: table, tokenizer: {train: words}, table: {train: t.csv, valid: t.csv, " +
                   ("test: t.csv, empty: keep, " + columns + "}}"));
  };
  EXPECT_EQ(mistake("value: score"),
            in("t.csv") + ":3: there is no value to learn; set empty: skip");
  EXPECT_EQ(mistake("label: label"),
            in("t.csv") + ":3: there is no label to learn; set empty: skip");
}

TEST_F(TableData, TextsAloneHaveNoObjectiveOfTheirOwn) {
  file("t.csv", "text\na b\nc d\n");
  const auto splits = load(
      "{name: table, tokenizer: {train: words}, "
      "table: {train: t.csv, valid: t.csv, test: t.csv, label: ''}}");
  EXPECT_EQ(splits.classes, 0);
  EXPECT_EQ(splits.train->targets(), 0);
  EXPECT_TRUE(splits.train->get(1).targets.empty());
  EXPECT_EQ(text_of(splits, splits.train->get(1).tokens), "c d");
  std::string mistake;
  try {
    find_data_source("table").objective_for(parse_yaml("text: t\nlabel: ''", "a.yaml"));
  } catch (const UserError& error) {
    mistake = error.what();
  }
  EXPECT_EQ(mistake,
            "a.yaml:2: data.table.label is empty; name the column of the class, or of a number "
            "with value; to learn the texts themselves, set objective");
}

TEST_F(TableData, LongTextsAreCut) {
  file("t.csv", rows(30));
  const auto splits =
      load("{name: table, max_tokens: 2, tokenizer: {train: words}, table: {train: t.csv}}");
  EXPECT_EQ(splits.max_length, 2);
  EXPECT_EQ(splits.truncated, 30);
}

}  // namespace
}  // namespace longbow
