#include "longbow/data/sets/csv.h"

#include <gtest/gtest.h>

#include "tests/data/folder.h"
#include "tests/data/mutation.h"

namespace longbow {
namespace {

using Fields = std::vector<std::string>;

std::vector<CsvRow> parsed(const std::string& text, char separator = ',') {
  return parse_csv(text, "a.csv", separator);
}

TEST(Csv, ReadsQuotedFieldsAsRfc4180Says) {
  const auto rows = parsed("text,label\n\"a, b\",x\n\"say \"\"hi\"\"\",\"\"\n");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].fields, (Fields{"text", "label"}));
  EXPECT_EQ(rows[1].fields, (Fields{"a, b", "x"}));
  EXPECT_EQ(rows[2].fields, (Fields{"say \"hi\"", ""}));
}

TEST(Csv, CountsLinesInsideQuotes) {
  const auto rows = parsed("t,l\r\n\"two\r\nlines\",x\r\n\r\nlast,y");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].fields, (Fields{"two\r\nlines", "x"}));
  EXPECT_EQ(rows[1].line, 2);
  EXPECT_EQ(rows[2].fields, (Fields{"last", "y"}));
  EXPECT_EQ(rows[2].line, 5);
}

TEST(Csv, TakesOtherSeparatorsAndAByteOrderMark) {
  EXPECT_EQ(parsed("\xef\xbb\xbf"
                   "a\tb\n1,5\t\"x\ty\"\n",
                   '\t')[1]
                .fields,
            (Fields{"1,5", "x\ty"}));
  EXPECT_EQ(parsed("a;b\n,;\n", ';')[1].fields, (Fields{",", ""}));
  EXPECT_EQ(parsed("a,b\nit\"s,5\"\n")[1].fields, (Fields{"it\"s", "5\""}))
      << "a quote inside a plain field is a character like any other";
}

TEST(Csv, RefusesWhatIsNoTable) {
  const auto refused = [](const std::string& text) { return error_of([&] { parsed(text); }); };
  EXPECT_EQ(refused("a,b\n1,\"x\n2,y\n"),
            "a.csv:2: a double quote is not closed; a quote inside a field is doubled: \"\"");
  EXPECT_EQ(refused("a,b\n1,\"x\"y\n"),
            "a.csv:2: text follows a closing double quote; a quote inside a field is doubled: "
            "\"\"");
  EXPECT_EQ(refused("a,b\n1,2,3\n"),
            "a.csv:2: 3 columns, but the header has 2; put fields that hold the separator or a "
            "line break in double quotes");
  EXPECT_EQ(refused("a,b\n1,2\n\xff,3\n"),
            "a.csv:3: is not UTF-8; convert the file, for example with iconv");
}

TEST(Csv, IsReadOrRefusedInOneLineWhateverTheBytes) {
  const std::string whole = "text,label\n\"a, b\"\"c\"\"\nd\",x\ne f,y\r\n\"\",\"z\"\n";
  for (uint64_t i = 0; i < 2000; ++i) {
    const auto text = mutated(whole, Stream(3, "accident").at(i));
    const auto message = error_of([&] { parsed(text); });
    ASSERT_EQ(message.find_first_of("\r\n"), std::string::npos) << message;
  }
}

Splits loaded(const Folder& folder, const std::string& options, uint64_t seed = 1,
              int64_t max_tokens = 0) {
  return load_data({.name = "csv",
                    .path = folder.str(),
                    .seed = seed,
                    .max_tokens = max_tokens,
                    .options = parse_yaml(options, "run.yaml")});
}

const char* const kThree = "{train: a.csv, valid: b.csv, test: b.csv}";

TEST(CsvData, NumbersTheWordsOfTheTrainingSplitByFrequency) {
  const Folder folder;
  folder.write("a.csv", "id,text,label\n1,b a b,good\n2,b c,bad\n");
  folder.write("b.csv", "text,label\na d,bad\n");
  const auto splits = loaded(folder, kThree);
  EXPECT_EQ(splits.symbols, (Fields{"<pad>", "<unk>", "b", "a", "c"}));
  EXPECT_EQ(splits.vocabulary, 5);
  EXPECT_EQ(splits.unknown, 1);
  EXPECT_EQ(splits.labels, (Fields{"bad", "good"}));
  EXPECT_EQ(splits.classes, 2);
  EXPECT_EQ(splits.train->get(0).tokens, (std::vector<int32_t>{2, 3, 2}));
  EXPECT_EQ(splits.train->get(0).targets, std::vector<int32_t>{1});
  EXPECT_EQ(splits.test->get(0).tokens, (std::vector<int32_t>{3, 1})) << "d is unknown";
  EXPECT_EQ(splits.checksums.count("a.csv"), 1u);
}

TEST(CsvData, LeavesRareWordsOut) {
  const Folder folder;
  folder.write("a.csv", "text,label\nb a b c,good\na b,bad\n");
  folder.write("b.csv", "text,label\na,bad\n");
  const auto names = [&](const char* more) {
    return loaded(folder, std::string("{train: a.csv, valid: b.csv, test: b.csv, ") + more + "}")
        .symbols;
  };
  EXPECT_EQ(names("min_count: 2"), (Fields{"<pad>", "<unk>", "b", "a"}));
  EXPECT_EQ(names("max_words: 1"), (Fields{"<pad>", "<unk>", "b"}));
}

TEST(CsvData, ReadsCharactersAndBytes) {
  const Folder folder;
  folder.write("a.csv", "text,label\né a,x\n");
  folder.write("b.csv", "text,label\na,x\n");
  const auto characters =
      loaded(folder, "{train: a.csv, valid: b.csv, test: b.csv, tokens: characters}");
  EXPECT_EQ(characters.train->get(0).tokens.size(), 3u);
  EXPECT_EQ(characters.symbols, (Fields{"<pad>", "<unk>", "a", "é", "␣"}));
  const auto bytes = loaded(folder, "{train: a.csv, valid: b.csv, test: b.csv, tokens: bytes}");
  EXPECT_EQ(bytes.vocabulary, 258);
  EXPECT_EQ(bytes.train->get(0).tokens,
            (std::vector<int32_t>{0xc3 + 2, 0xa9 + 2, ' ' + 2, 'a' + 2}));
  EXPECT_EQ(bytes.symbols.at('a' + 2), "a");
}

TEST(CsvData, ReadsSecondTextsAndTagsAndTextsAlone) {
  const Folder folder;
  folder.write("a.tsv", "one\ttwo\ttags\nb a\tc\tX O\nc\td e\t-\n");
  const auto pairs = loaded(folder,
                            "{train: a.tsv, valid: a.tsv, test: a.tsv, text: one, second: two, "
                            "label: tags}");
  EXPECT_TRUE(pairs.train->has_second());
  EXPECT_EQ(pairs.train->get(1).second.size(), 2u);
  const auto tags = loaded(folder,
                           "{train: a.tsv, valid: a.tsv, test: a.tsv, text: one, label: tags, "
                           "targets: tags, ignored_tag: '-'}");
  EXPECT_TRUE(tags.per_token);
  EXPECT_EQ(tags.labels, (Fields{"O", "X"}));
  EXPECT_EQ(tags.train->get(0).targets, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(tags.train->get(1).targets, std::vector<int32_t>{kIgnore});
  const auto texts =
      loaded(folder, "{train: a.tsv, valid: a.tsv, test: a.tsv, text: one, targets: none}");
  EXPECT_EQ(texts.classes, 0);
  EXPECT_TRUE(texts.train->get(0).targets.empty());
}

std::string numbered(int rows) {
  std::string text = "text,label\n";
  for (int i = 0; i < rows; ++i) text += "w" + std::to_string(i) + ",x\n";
  return text;
}

TEST(CsvData, SplitsOneFileByItsSeed) {
  const Folder folder;
  folder.write("a.csv", numbered(50));
  const char* const options = "{train: a.csv, valid_fraction: 0.2, test_fraction: 0.1}";
  const auto splits = loaded(folder, options);
  EXPECT_EQ(splits.train->size(), 35);
  EXPECT_EQ(splits.valid->size(), 10);
  EXPECT_EQ(splits.test->size(), 5);
  EXPECT_EQ(loaded(folder, options).checksums, splits.checksums);
  EXPECT_NE(loaded(folder, options, 2).checksums, splits.checksums);
}

TEST(CsvData, CutsLongTexts) {
  const Folder folder;
  folder.write("a.csv", "text,label\na b c d,x\na,x\na b,x\n");
  const auto splits = loaded(folder, "{train: a.csv, valid: a.csv, test: a.csv}", 1, 2);
  EXPECT_EQ(splits.max_length, 2);
  EXPECT_EQ(splits.truncated, 3);
}

// Of the samples of all three splits; a run that is resumed compares them.
TEST(CsvData, HasTheSameSamplesInEveryVersion) {
  const Folder folder;
  folder.write("a.csv", "text,other,label\nb a b,c é,good\nb c,a,bad\na <unk> b,b,bad\n");
  folder.write("b.csv", "text,other,label\na d b,e c,good\n");
  folder.write("c.csv", "text,tags\na b,X O\nc d e,- O X\n");
  folder.write("d.csv", "text,tags\nb z,O -\n");
  const auto sum = [&](const std::string& options) {
    const auto sums = loaded(folder, options).checksums;
    return sha256(sums.at("train") + sums.at("valid") + sums.at("test")).substr(0, 16);
  };
  const auto pairs = [](const std::string& tokens) {
    return "{train: a.csv, valid: b.csv, test: b.csv, second: other, tokens: " + tokens + "}";
  };
  EXPECT_EQ(sum(pairs("words")), "396638e90cfbc304");
  EXPECT_EQ(sum(pairs("characters")), "5ed784d61d3f9623");
  EXPECT_EQ(sum(pairs("bytes")), "009ccbc9ed3b4860");
  EXPECT_EQ(sum("{train: c.csv, valid: d.csv, test: d.csv, label: tags, targets: tags, "
                "ignored_tag: '-'}"),
            "b39e44d7cd05c609");
}

TEST(CsvData, NamesFileAndLineOfWhatIsWrong) {
  const Folder folder;
  folder.write("a.csv", "text,label\na b,x\n");
  const auto refused = [&](const std::string& file, const std::string& options) {
    folder.write("b.csv", file);
    return error_of([&] { loaded(folder, options); }, folder.str());
  };
  EXPECT_EQ(refused("text,label\na,x\n \"\",x\n,x\n", kThree), "b.csv:4: column 'text' is empty");
  EXPECT_EQ(refused("text,label\na,\n", kThree), "b.csv:2: column 'label' is empty");
  EXPECT_EQ(refused("text,label\na,y\n", kThree),
            "b.csv:2: label 'y' does not occur in the training split; one of: x");
  EXPECT_EQ(refused("txet,label\na,x\n", kThree),
            "b.csv:1: no column 'text'; did you mean 'txet'?");
  EXPECT_EQ(refused("text,label\n", kThree), "b.csv:1: no rows; the first line names the columns");
  EXPECT_EQ(
      refused("text,label\na b,x\n", "{train: a.csv, valid: b.csv, test: b.csv, targets: tags}"),
      "a.csv:2: 1 tags for 2 words");
  EXPECT_EQ(refused("", "{train: a.csv}"),
            "a.csv:2: 1 rows cannot be split in three; name files for valid and test");
  EXPECT_EQ(refused("", "{train: a.csv, targets: tags, tokens: bytes}"),
            "run.yaml:1: data.csv.targets is tags, but tokens are not words; set tokens: words");
  EXPECT_EQ(refused("", "{train: a.csv, targets: tags, second: text}"),
            "run.yaml:1: data.csv.second is given, but tags are for the words of one text; leave "
            "second out");
  EXPECT_EQ(
      refused("", "{train: a.csv, valid_fraction: 0.6, test_fraction: 0.4}"),
      "run.yaml:1: data.csv.test_fraction and valid_fraction leave no training samples; their "
      "sum is below 1");
  EXPECT_EQ(refused("", "{trian: a.csv}"),
            "run.yaml:1: unknown key 'trian'; did you mean 'train'?");
}

TEST(CsvData, ExistsAlready) {
  EXPECT_EQ(error_of([] { make_data("csv", "x", {}, 1); }),
            "csv is not generated; it reads files that exist already");
  const Folder folder;
  EXPECT_EQ(
      error_of([&] { load_data({.name = "csv", .path = folder.file("nowhere")}); }, folder.str()),
      "nowhere: no such folder; it should hold train.csv");
}

}  // namespace
}  // namespace longbow
