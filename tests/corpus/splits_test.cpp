#include "longbow/corpus/readers/splits.h"

#include <gtest/gtest.h>

#include <map>

#include "longbow/corpus/readers/parallel.h"
#include "tests/corpus/support.h"

namespace longbow::corpus {
namespace {

Record record_of(std::vector<std::string> texts, std::string id = "") {
  Record record;
  record.texts = std::move(texts);
  record.id = std::move(id);
  record.file = std::make_shared<const std::string>("a.csv");
  record.line = 7;
  return record;
}

TEST(HashSplit, MeetsTheFractionsOnAverage) {
  const HashSplit split({.valid_fraction = 0.2, .test_fraction = 0.1}, 1);
  std::map<Side, int> counts;
  for (int i = 0; i < 20000; ++i) ++counts[split.side(record_of({std::to_string(i)}))];
  EXPECT_NEAR(counts[Side::train], 14000, 300);  // 65 is one standard deviation
  EXPECT_NEAR(counts[Side::valid], 4000, 300);
  EXPECT_NEAR(counts[Side::test], 2000, 300);
}

TEST(HashSplit, DependsOnSeedAndKeyAlone) {
  const auto sides = [](SplitKey key, uint64_t seed, const char* second, const char* id) {
    const HashSplit split({.valid_fraction = 0.3, .test_fraction = 0.3, .key = key}, seed);
    std::vector<Side> all;
    for (int i = 0; i < 64; ++i)
      all.push_back(split.side(record_of({"text " + std::to_string(i), second}, id)));
    return all;
  };
  const auto base = sides(SplitKey::first_text, 1, "x", "");
  EXPECT_EQ(sides(SplitKey::first_text, 1, "y", "z"), base);
  EXPECT_NE(sides(SplitKey::first_text, 2, "x", ""), base);
  const auto all_texts = sides(SplitKey::texts, 1, "x", "");
  EXPECT_NE(sides(SplitKey::texts, 1, "y", ""), all_texts);
  EXPECT_EQ(sides(SplitKey::texts, 1, "x", "z"), all_texts);
  const auto by_id = sides(SplitKey::id, 1, "x", "a");
  EXPECT_EQ(std::vector<Side>(64, by_id[0]), by_id) << "one id, one side";
}

TEST(HashSplit, IsTheSameOnEveryMachine) {
  const HashSplit split({.valid_fraction = 0.25, .test_fraction = 0.25}, 1);
  std::string sides;
  for (int i = 0; i < 24; ++i)
    sides += "tve"[static_cast<int>(split.side(record_of({std::to_string(i), "x"})))];
  EXPECT_EQ(sides, "ttvtetttttttetvtttteeetv");
}

TEST(HashSplit, NamesWhatIsWrong) {
  EXPECT_EQ(mistake([] { HashSplit({.valid_fraction = 0.6, .test_fraction = 0.4}, 1); }),
            "test_fraction and valid_fraction leave no training records; their sum is below 1");
  const HashSplit by_id({.key = SplitKey::id}, 1), by_group({.key = SplitKey::group}, 1);
  EXPECT_EQ(mistake([&] { by_id.side(record_of({"a"})); }),
            "a.csv:7: the record has no id to split by; set key: texts or key: first_text");
  EXPECT_EQ(mistake([&] { by_group.side(record_of({"a"})); }),
            "a.csv:7: the record has no group to split by; set key: texts or key: first_text");
}

TEST(OrderedSplit, TakesTheLastRecords) {
  const OrderedSplit split({.valid_fraction = 0.1, .test_fraction = 0.2}, 100);
  EXPECT_EQ(split.side(0), Side::train);
  EXPECT_EQ(split.side(69), Side::train);
  EXPECT_EQ(split.side(70), Side::valid);
  EXPECT_EQ(split.side(79), Side::valid);
  EXPECT_EQ(split.side(80), Side::test);
  EXPECT_EQ(split.side(99), Side::test);
  EXPECT_EQ(mistake([] { OrderedSplit({.valid_fraction = 0.5, .test_fraction = 0.5}, 9); }),
            "test_fraction and valid_fraction leave no training records; their sum is below 1");
}

TEST(OrderedSplit, CutsATextBetweenCharacters) {
  const std::string text = "aaaa한국b";  // 11 bytes; a half is inside of 한
  const OrderedSplit split({.valid_fraction = 0.5, .test_fraction = 0}, 11);
  const auto parts = split.cut(text);
  EXPECT_EQ(parts[0], "aaaa");
  EXPECT_EQ(parts[1], "한국b");
  EXPECT_EQ(parts[2], "");
  const OrderedSplit whole({.valid_fraction = 0, .test_fraction = 0}, 11);
  EXPECT_EQ(whole.cut(text)[0], text);
}

TEST(Measure, CountsLinesAndBytes) {
  const auto size = [](const std::string& text) {
    auto file = TextFile::in_memory(text, "a");
    const auto found = measure(file);
    return std::pair(found.lines, found.bytes);
  };
  EXPECT_EQ(size(""), std::pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(size("a\n\nb"), std::pair(int64_t{3}, int64_t{4}));
  EXPECT_EQ(size("\xef\xbb\xbf"
                 "a\r\n"),
            std::pair(int64_t{1}, int64_t{3}));
}

TEST(SplitsCollection, KeepsTheTranslationsOfASentenceTogether) {
  LONGBOW_NEEDS(collected("tatoeba"));
  TableOptions columns;
  columns.header = false;
  columns.text = "1";
  columns.second = "2";
  const HashSplit split({.key = SplitKey::first_text}, 3);
  std::map<std::string, Side> sides;
  std::map<Side, int64_t> counts;
  TextFile german(collected("tatoeba/deu.txt.xz"));
  const auto read = read_parallel(german, columns, {}, [&](Record&& record) {
    const auto side = split.side(record);
    ++counts[side];
    const auto [known, added] = sides.emplace(std::move(record.texts[0]), side);
    ASSERT_EQ(known->second, side);
  });
  EXPECT_EQ(read.records, 169813);
  EXPECT_EQ(sides.size(), 135534u);
  for (const auto side : {Side::valid, Side::test})
    EXPECT_NEAR(static_cast<double>(counts[side]), 16981, 700);
  TextFile korean(collected("tatoeba/kor.txt"));
  EXPECT_EQ(read_parallel(korean, columns, {}, [](Record&&) {}).records, 3798);
}

}  // namespace
}  // namespace longbow::corpus
