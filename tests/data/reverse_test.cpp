#include "longbow/data/sets/reverse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/data/folder.h"
#include "tests/data/mutation.h"

namespace longbow {
namespace {

const ReverseConfig kSmall{
    .train = 20, .valid = 6, .test = 5, .symbols = 5, .length = 6, .length_min = 3};

TEST(Reverse, TheTargetIsTheSourceFromItsEndWithIdsOfItsOwn) {
  const auto splits = make_reverse(kSmall, 1);
  EXPECT_EQ(splits.vocabulary, 1 + 5);
  EXPECT_EQ(splits.second_vocabulary, 3 + 5);
  EXPECT_EQ(splits.begin, 1);
  EXPECT_EQ(splits.end, 2);
  EXPECT_EQ(splits.symbols, (std::vector<std::string>{"<pad>", "s0", "s1", "s2", "s3", "s4"}));
  EXPECT_EQ(splits.second_symbols,
            (std::vector<std::string>{"<pad>", "<begin>", "<end>", "s0", "s1", "s2", "s3", "s4"}));
  EXPECT_TRUE(splits.train->has_second());
  EXPECT_EQ(splits.train->targets(), 0);
  for (int64_t i = 0; i < splits.train->size(); ++i) {
    const auto sample = splits.train->get(i);
    ASSERT_EQ(sample.second.size(), sample.tokens.size() + 1);
    EXPECT_EQ(sample.second.back(), 2);
    for (size_t at = 0; at < sample.tokens.size(); ++at)
      EXPECT_EQ(sample.second[at], sample.tokens[sample.tokens.size() - 1 - at] + 2);
  }
}

TEST(Reverse, VariesItsLengthAndUsesEverySymbol) {
  const auto splits = make_reverse(
      {.train = 200, .valid = 1, .test = 1, .symbols = 5, .length = 6, .length_min = 3}, 1);
  std::set<int64_t> lengths, used;
  for (int64_t i = 0; i < splits.train->size(); ++i) {
    lengths.insert(splits.train->length(i));
    for (auto token : splits.train->get(i).tokens) used.insert(token);
  }
  EXPECT_EQ(lengths, (std::set<int64_t>{4, 5, 6, 7})) << "targets have an end";
  EXPECT_EQ(used, (std::set<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(splits.max_length, 7);
}

TEST(Reverse, IsAFunctionOfItsSeed) {
  const auto a = make_reverse(kSmall, 1), b = make_reverse(kSmall, 1), c = make_reverse(kSmall, 2);
  EXPECT_EQ(a.checksums, b.checksums);
  EXPECT_NE(a.checksums, c.checksums);
  EXPECT_NE(a.valid->get(0).tokens, a.test->get(0).tokens);
}

TEST(Reverse, RefusesImpossibleLengths) {
  EXPECT_EQ(error_of([] { make_reverse({.length = 3, .length_min = 4}, 1); }),
            "length_min is 4, above length, 3; lower it, or raise length");
}

TEST(Reverse, SaysWhichLineOfItsManifestIsImpossible) {
  Folder folder;
  write_reverse(folder.str(), kSmall, 4);
  auto manifest = folder.read("manifest.json");
  manifest.replace(manifest.find("\"length\": 6"), 11, "\"length\": 2");
  folder.write("manifest.json", manifest);
  const auto before = manifest.substr(0, manifest.find("length_min"));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  EXPECT_EQ(error_of([&] { load_reverse(folder.str()); }, folder.str()),
            "manifest.json:" + std::to_string(line) +
                ": config.length_min is 3, above length, 2; lower it, or raise length");
}

TEST(Reverse, ReadsBackAsItWasWritten) {
  Folder folder;
  write_reverse(folder.str(), kSmall, 4);
  const auto loaded = load_reverse(folder.str()), made = make_reverse(kSmall, 4);
  for (const auto* name : {"train", "valid", "test"})
    EXPECT_EQ(loaded.checksums.at(name), made.checksums.at(name));
  EXPECT_EQ(loaded.second_vocabulary, made.second_vocabulary);
  EXPECT_EQ(loaded.end, made.end);
  EXPECT_EQ(loaded.symbols, (std::vector<std::string>{"<pad>", "s0", "s1", "s2", "s3", "s4"}));
}

TEST(Reverse, SaysWhichLineIsMalformed) {
  Folder folder;
  write_reverse(folder.str(), kSmall, 4);
  const auto error = [&](const std::string& row) {
    folder.write("reverse_val.tsv", "Source\tTarget\n" + row + "\n");
    return error_of([&] { load_reverse(folder.str()); }, folder.str());
  };
  EXPECT_EQ(error("1 2 3\t5 4 4 2"),
            "reverse_val.tsv:2: the target is '5 4 4 2' but the reversed source is '5 4 3 2'; the "
            "file was changed or cut");
  EXPECT_EQ(error("1 2 6\t5 4 3 2"), "reverse_val.tsv:2: token 3 (id 6) is not a symbol");
  EXPECT_EQ(error("\t2"), "reverse_val.tsv:2: the source is empty");
  EXPECT_EQ(
      error("1 x\t4 3 2"),
      "reverse_val.tsv:2: 'x' is not an id; expected whole numbers with one blank between them");
  EXPECT_EQ(error("1 2\t4 3 2"),
            "reverse_val.tsv: 1 samples, but manifest.json says 6; the file was cut or changed; "
            "make it again with `longbow data make`");
}

TEST(Reverse, NeedsItsManifest) {
  Folder folder;
  write_reverse(folder.str(), kSmall, 4);
  std::filesystem::remove(folder.file("manifest.json"));
  EXPECT_EQ(
      error_of([&] { load_reverse(folder.str()); }, folder.str()),
      "manifest.json: no such file; it says what the ids in reverse_{train,val,test}.tsv mean");
}

TEST(Reverse, IsNeverReadAfterAnAccident) {
  Folder folder;
  write_reverse(folder.str(), kSmall, 4);
  const auto whole = folder.read("reverse_test.tsv");
  for (uint64_t i = 0; i < 300; ++i) {
    const auto text = mutated(whole, Stream(3, "accident").at(i));
    if (text == whole) continue;
    folder.write("reverse_test.tsv", text);
    const auto message = error_of([&] { load_reverse(folder.str()); }, folder.str());
    ASSERT_TRUE(message.starts_with("reverse_test.tsv:")) << message;
    ASSERT_EQ(message.find_first_of("\r\n"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace longbow
