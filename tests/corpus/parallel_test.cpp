#include "longbow/corpus/readers/parallel.h"

#include <gtest/gtest.h>

#include "tests/corpus/support.h"

namespace longbow::corpus {
namespace {

using Shown = std::vector<std::string>;

Shown pairs(const std::string& first, const std::string& second,
            const ParallelOptions& options = {}, ReadCounts* counts = nullptr) {
  auto left = TextFile::in_memory(first, "a.en"), right = TextFile::in_memory(second, "a.de");
  Shown all;
  const auto found = read_parallel(left, right, options, [&](Record&& record) {
    all.push_back(record.texts.at(0) + "/" + record.texts.at(1) + "@" +
                  std::to_string(record.line));
  });
  EXPECT_EQ(found.records, std::ssize(all));
  if (counts) *counts = found;
  return all;
}

TEST(Parallel, PairsTheLinesOfTwoFiles) {
  EXPECT_EQ(pairs("one\ntwo\n", "eins\r\nzwei"), (Shown{"one/eins@1", "two/zwei@2"}));
  EXPECT_EQ(pairs("one\n", "eins\n", {.swap = true}), Shown{"eins/one@1"});
  EXPECT_EQ(pairs("", ""), Shown());
}

TEST(Parallel, RefusesFilesOfDifferentLength) {
  const std::string hint = "; line i of one file is the translation of line i of the other";
  EXPECT_EQ(mistake([] { pairs("1\n2\n3\n4\n", "1\n2\n"); }),
            "a.en: 4 lines, but a.de has 2" + hint);
  EXPECT_EQ(mistake([] { pairs("1\n", "1\n2\n\n"); }), "a.en: 1 lines, but a.de has 3" + hint);
}

TEST(Parallel, SkipsRefusesOrKeepsEmptySides) {
  ReadCounts counts;
  EXPECT_EQ(pairs("a\n\nc\n", "x\ny\n \n", {}, &counts), Shown{"a/x@1"});
  EXPECT_EQ(counts.skipped, 2);
  EXPECT_EQ(pairs("a\n\n", "x\ny\n", {.empty = Empty::keep}), (Shown{"a/x@1", "/y@2"}));
  EXPECT_EQ(mistake([] { pairs("a\nb\n", "x\n\n", {.empty = Empty::error}); }),
            "a.en:2: the second text is empty; set empty: skip or empty: keep to allow that");
}

TEST(Parallel, FiltersByLengthAndRatio) {
  const std::string english = "a b\na\na b c d\na b c d e\n", german = "x y\nx\nx\nx y z\n";
  EXPECT_EQ(pairs(english, german, {.min_length = 2}), (Shown{"a b/x y@1", "a b c d e/x y z@4"}));
  EXPECT_EQ(pairs(english, german, {.max_length = 4}),
            (Shown{"a b/x y@1", "a/x@2", "a b c d/x@3"}));
  EXPECT_EQ(pairs(english, german, {.max_ratio = 2}),
            (Shown{"a b/x y@1", "a/x@2", "a b c d e/x y z@4"}));
  EXPECT_EQ(
      pairs("한국어\n한국\n", "abc\nab\n", {.length = LengthUnit::characters, .min_length = 3}),
      Shown{"한국어/abc@1"});
  EXPECT_EQ(mistake([] { pairs("", "", {.min_length = 3, .max_length = 2}); }),
            "max_length is 2, below min_length, 3; no pair would be left");
  EXPECT_EQ(mistake([] { pairs("", "", {.max_ratio = 0.5}); }),
            "max_ratio is 0.5; it is 0, or at least 1");
}

TEST(Parallel, ReadsTwoColumnsOfATable) {
  TableOptions columns;
  columns.text = "en";
  columns.second = "de";
  auto file = TextFile::in_memory("de,en\neins,one\n,two\n\"drei, vier\",x\n", "a.csv");
  Shown all;
  const auto counts = read_parallel(file, columns, {.swap = true}, [&](Record&& record) {
    all.push_back(record.texts.at(0) + "/" + record.texts.at(1));
  });
  EXPECT_EQ(all, (Shown{"eins/one", "drei, vier/x"}));
  EXPECT_EQ(counts.skipped, 1);
  columns.second = "";
  EXPECT_EQ(mistake([&] { read_parallel(file, columns, {}, [](Record&&) {}); }),
            "second is empty; name the column of the second text");
}

ReadCounts count_pairs(const std::string& stem, const std::string& packed) {
  TextFile english(collected(stem + ".en" + packed)), german(collected(stem + ".de" + packed));
  return read_parallel(english, german, {}, [](Record&&) {});
}

TEST(ParallelCollection, HasThePairsOfMulti30kAndWmt) {
  LONGBOW_NEEDS(collected("multi30k_en_de"));
  const std::pair<const char*, int64_t> packed[] = {
      {"train", 29000},           {"val", 1014},
      {"test_2016_flickr", 1000}, {"test_2017_flickr", 1000},
      {"test_2017_mscoco", 461},  {"test_2018_flickr", 1071}};
  for (const auto& [name, count] : packed)
    EXPECT_EQ(count_pairs("multi30k_en_de/" + std::string(name), ".gz").records, count) << name;
  LONGBOW_NEEDS(collected("wmt14_en_de"));
  EXPECT_EQ(count_pairs("wmt14_en_de/sample_tok_train", ".xz").records, 10000);
  EXPECT_EQ(count_pairs("wmt14_en_de/sample_tok_val", "").records, 3000);
  EXPECT_EQ(count_pairs("wmt14_en_de/sample_tok_test", "").records, 2737);
  TableOptions columns;
  columns.text = "en";
  columns.second = "de";
  TextFile table(collected("wmt14_en_de/newstest2014_de-en.csv"));
  EXPECT_EQ(read_parallel(table, columns, {}, [](Record&&) {}).records, 3003);
}

}  // namespace
}  // namespace longbow::corpus
