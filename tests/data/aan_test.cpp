#include <gtest/gtest.h>

#include "tests/data/published.h"

namespace longbow {
namespace {

using Counts = std::map<std::string, int64_t>;
const auto kSplits = {"train", "eval", "test"};

void write_pairs(const Folder& folder) {
  for (const std::string split : kSplits)
    folder.write("new_aan_pairs." + split + ".tsv",
                 "0.0\tA1\tB1\t" + split + " \"one\" \\t x\tsecond one\n1.0\tA2\tB2\tthird\tfour" +
                     std::string(60, '!') + "\n1.0\tA3\tB3\tbad \xff byte\tend\n");
}

void write_papers(const Folder& folder, const std::string& pairs) {
  folder.write("papers.tsv", "id\ttext\nP1\tfirst paper\nP2\tsecond paper\nP3\tthird\n");
  for (const std::string split : {"train", "dev", "test"})
    folder.write("pairs_" + split + ".tsv", "label\tid1\tid2\n" + pairs);
}

TEST(Aan, ReadsThePublishedPairs) {
  const Folder folder;
  write_pairs(folder);
  const auto splits = load_published({.set = "aan", .path = folder.str()});
  EXPECT_EQ(splits.labels, (std::vector<std::string>{"unrelated", "cites"}));
  EXPECT_EQ(classes_in(splits, *splits.train), (Counts{{"unrelated", 1}, {"cites", 2}}));
  const auto first = splits.valid->get(0);
  EXPECT_EQ(text_of(first.tokens), "eval \"one\" \\t x") << "neither quotes nor escapes";
  EXPECT_EQ(text_of(first.second), "second one");
  EXPECT_EQ(text_of(splits.test->get(2).tokens), "bad \xef\xbf\xbd byte");
  EXPECT_EQ(splits.vocabulary, 257);
  EXPECT_EQ(splits.max_length, 64);
}

TEST(Aan, ReadsPapersAndPairsOfTheirIds) {
  const Folder folder;
  write_papers(folder, "1\tP1\tP2\n0\tP3\tP1\n");
  const auto splits = load_published({.set = "aan", .path = folder.str()});
  EXPECT_EQ(classes_in(splits, *splits.train), (Counts{{"unrelated", 1}, {"cites", 1}}));
  EXPECT_EQ(text_of(splits.train->get(0).tokens), "first paper");
  EXPECT_EQ(text_of(splits.train->get(0).second), "second paper");
  EXPECT_EQ(text_of(splits.test->get(1).tokens), "third");
  folder.write("papers.tsv", "id\ttext\nP1\tanother\nP2\tsecond paper\nP3\tthird\n");
  const auto again = load_published({.set = "aan", .path = folder.str()});
  EXPECT_EQ(text_of(again.train->get(0).tokens), "another") << "the cache knows the papers";
}

TEST(Aan, SaysWhatIsMissingOrWrong) {
  const Folder folder;
  EXPECT_EQ(refusal(folder, "aan"),
            "new_aan_pairs.train.tsv: no such file; `longbow data list aan` tells which files "
            "belong into data.path");
  write_pairs(folder);
  folder.write("new_aan_pairs.test.tsv", "1.0\tA\tB\tone\ttwo\n2.0\tA\tB\tone\ttwo\n");
  EXPECT_EQ(refusal(folder, "aan"),
            "new_aan_pairs.test.tsv:2: label '2.0' is not in label_map; did you mean '0.0'?");
  folder.write("new_aan_pairs.test.tsv", "1.0\tA\tB\tone\ttwo\n1.0\tA\tB\tone\n");
  EXPECT_EQ(refusal(folder, "aan"),
            "new_aan_pairs.test.tsv:2: 4 columns, but the first row has 5; set quotes: double if "
            "fields with the separator are in double quotes");

  const Folder packed;
  write_papers(packed, "1\tP1\tP9\n");
  EXPECT_EQ(refusal(packed, "aan"),
            "pairs_train.tsv:2: paper 'P9' is not in papers.tsv; the files do not belong together");
  write_papers(packed, "1\tP1\tP2\n");
  packed.write("papers.tsv", "id\ttext\nP1\ta\nP1\tb\n");
  EXPECT_EQ(refusal(packed, "aan"), "papers.tsv:3: paper 'P1' occurs twice");
}

TEST(Aan, HasPairsOfTheAnthology) {
  const auto path = collected("aan_scisummnet");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published({.set = "aan", .path = path.string(), .max_tokens = 300});
  EXPECT_EQ(splits.train->size(), 4424);
  EXPECT_EQ(splits.valid->size(), 553);
  EXPECT_EQ(splits.test->size(), 553);
  const auto all = classes_in(splits, *splits.train) + classes_in(splits, *splits.valid) +
                   classes_in(splits, *splits.test);
  EXPECT_EQ(all, (Counts{{"unrelated", 2765}, {"cites", 2765}}));
  EXPECT_EQ(splits.max_length, 300);
}

}  // namespace
}  // namespace longbow
