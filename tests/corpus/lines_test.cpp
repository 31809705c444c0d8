#include "longbow/corpus/readers/lines.h"

#include <gtest/gtest.h>

#include <set>

#include "longbow/corpus/readers/splits.h"
#include "tests/corpus/support.h"

namespace longbow::corpus {
namespace {

using Shown = std::vector<std::string>;

std::string shown(const Record& record) {
  return record.texts.at(0) + "|" + record.id + "@" + std::to_string(record.line);
}

Shown records(const std::string& text, const LinesOptions& options, ReadCounts* counts = nullptr) {
  Shown all;
  auto file = TextFile::in_memory(text, "a.txt");
  const auto found =
      read_lines(file, options, [&](Record&& record) { all.push_back(shown(record)); });
  EXPECT_EQ(found.records, std::ssize(all));
  if (counts) *counts = found;
  return all;
}

TEST(Lines, AreRecordsWithoutBlankOnesUnlessTold) {
  const std::string text = "one\n \n two \r\nlast";
  ReadCounts counts;
  EXPECT_EQ(records(text, {}, &counts), (Shown{"one|@1", " two |@3", "last|@4"}));
  EXPECT_EQ(counts.skipped, 1);
  EXPECT_EQ(records(text, {.keep_blank = true, .strip = true}),
            (Shown{"one|@1", "|@2", "two|@3", "last|@4"}));
  EXPECT_EQ(records("", {}), Shown());
}

TEST(Lines, OfAParagraphAreJoined) {
  EXPECT_EQ(records("\n\none\ntwo\n \t\n\n three\r\n", {.unit = LinesUnit::paragraph}),
            (Shown{"one\ntwo|@3", " three|@7"}));
}

TEST(Lines, OfASectionFollowItsHeading) {
  const std::string text = "before\n=== A_1 ===\none\n\ntwo\n=== B ===\n=== C ===\nthree\n";
  LinesOptions options = {.unit = LinesUnit::section, .heading = "=== (.*) ==="};
  EXPECT_EQ(records(text, options), (Shown{"before|@1", "one\n\ntwo|A_1@2", "three|C@7"}));
  options.keep_heading = true;
  options.heading = "===.*";
  EXPECT_EQ(records(text, options),
            (Shown{"before|@1", "=== A_1 ===\none\n\ntwo|=== A_1 ===@2", "=== B ===|=== B ===@6",
                   "=== C ===\nthree|=== C ===@7"}));
  EXPECT_EQ(records("\n = T = \nx\n = = S = = \ny\n",
                    {.unit = LinesUnit::section, .heading = " = ([^=].*) = ", .strip = true}),
            Shown{"x\n = = S = = \ny|T@2"});
}

TEST(Lines, OfAWholeFileStayAsTheyAre) {
  EXPECT_EQ(records("a\r\n\nb\n", {.unit = LinesUnit::file}), Shown{"a\r\n\nb\n|@1"});
  EXPECT_EQ(records(" a\n\n", {.unit = LinesUnit::file, .strip = true}), Shown{"a|@1"});
  EXPECT_EQ(records(" \n", {.unit = LinesUnit::file}), Shown());
}

TEST(Lines, OfAFolderComeInTheOrderOfItsFiles) {
  const Scratch scratch;
  scratch.write("b.txt.gz", gzipped("three\n"));
  scratch.write("a/x.txt", "one\ntwo\n");
  scratch.write("a/x.md", "other\n");
  Shown all;
  const auto counts = read_lines(scratch.str(), {}, {}, [&](Record&& record) {
    all.push_back(record.texts[0] + " " + record.place().str().substr(scratch.str().size()));
  });
  EXPECT_EQ(all, (Shown{"one /a/x.txt:1", "two /a/x.txt:2", "three /b.txt.gz:1"}));
  EXPECT_EQ(counts.records, 3);
}

TEST(Lines, NameWhatIsWrong) {
  const auto refused = [](const std::string& text, const LinesOptions& options) {
    return mistake([&] { records(text, options); });
  };
  EXPECT_EQ(refused("x", {.unit = LinesUnit::section}),
            "heading is empty; unit: section needs a regular expression for its headings");
  EXPECT_EQ(refused("x", {.unit = LinesUnit::section, .heading = "(x"}),
            "heading is not a regular expression: missing closing parenthesis; see position 3 of "
            "'(x'");
  EXPECT_EQ(refused("x\n\n12345\n678\n", {.unit = LinesUnit::paragraph, .max_record = 8}),
            "a.txt:3: the paragraph is longer than 8 bytes; max_record sets the limit");
  EXPECT_EQ(refused("x\n123456789\n", {.max_record = 8}),
            "a.txt:2: the line is longer than 8 bytes; max_record sets the limit");
  EXPECT_EQ(refused("123456789\n", {.unit = LinesUnit::file, .max_record = 8}),
            "a.txt: holds more than 8 bytes of text");
  EXPECT_EQ(refused(std::string(40, 'a') + "!", {.unit = LinesUnit::section, .heading = "(a+)+"}),
            "heading cannot be matched: match limit exceeded; use a simpler expression");
}

TEST(LinesCollection, HasTheTextsOfItsPages) {
  LONGBOW_NEEDS(collected("wikitext2"));
  int64_t tokens = 0;
  std::set<std::string> words = {"\n"};
  const auto count = [&](Record&& record) {
    ++tokens;  // the end of the line
    const auto& text = record.texts[0];
    for (size_t at = text.find_first_not_of(' '); at != std::string::npos;) {
      const auto end = std::min(text.find(' ', at), text.size());
      words.insert(text.substr(at, end - at));
      ++tokens;
      at = text.find_first_not_of(' ', end);
    }
  };
  const LinesOptions lines = {.keep_blank = true};
  EXPECT_EQ(read_lines(collected("wikitext2/train.txt.xz"), {}, lines, count).records, 36718);
  EXPECT_EQ(tokens, 2088628);
  EXPECT_EQ(words.size(), 33278u);
  tokens = 0;
  read_lines(collected("wikitext2/valid.txt.xz"), {}, lines, count);
  EXPECT_EQ(tokens, 217646);
  tokens = 0;
  read_lines(collected("wikitext2/test.txt.xz"), {}, lines, count);
  EXPECT_EQ(tokens, 245569);
}

TEST(LinesCollection, HasTheBooksOfTheNovels) {
  LONGBOW_NEEDS(collected("english_novels"));
  const LinesOptions books = {.unit = LinesUnit::section, .heading = "=== (.*) ==="};
  Shown titles;
  const auto add = [&](Record&& record) { titles.push_back(record.id); };
  EXPECT_EQ(read_lines(collected("english_novels/train.txt.xz"), {}, books, add).records, 20);
  EXPECT_EQ(std::set(titles.begin(), titles.end()).size(), 20u);
  titles.clear();
  read_lines(collected("english_novels/valid.txt.xz"), {}, books, add);
  EXPECT_EQ(titles, Shown{"Stevenson_Catriona_1893"});
  int64_t bytes = 0;
  read_lines(collected("english_novels/test.txt.xz"), {}, {.unit = LinesUnit::file},
             [&](Record&& record) { bytes += std::ssize(record.texts[0]); });
  EXPECT_EQ(bytes, 890378);
}

TEST(LinesCollection, CutsShakespeareAsIsUsual) {
  LONGBOW_NEEDS(collected("tinyshakespeare"));
  TextFile file(collected("tinyshakespeare/input.txt.xz"));
  const auto text = file.read_all();
  EXPECT_EQ(text.size(), 1115394u);
  EXPECT_EQ(std::set<char>(text.begin(), text.end()).size(), 65u);
  TextFile again(collected("tinyshakespeare/input.txt.xz"));
  const auto size = measure(again);
  EXPECT_EQ(size.bytes, 1115394);
  EXPECT_EQ(size.lines, 40000);
  const OrderedSplit split({.valid_fraction = 0.1, .test_fraction = 0}, size.bytes);
  const auto parts = split.cut(text);
  EXPECT_EQ(parts[0].size(), 1003854u);
  EXPECT_EQ(parts[1].size(), 111540u);
  EXPECT_TRUE(parts[2].empty());
}

}  // namespace
}  // namespace longbow::corpus
