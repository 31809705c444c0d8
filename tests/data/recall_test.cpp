#include "longbow/data/sets/recall.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tests/data/folder.h"
#include "tests/data/mutation.h"

namespace longbow {
namespace {

const RecallConfig kSmall{.train = 20,
                          .valid = 6,
                          .test = 5,
                          .keys = 9,
                          .values = 4,
                          .pairs = 6,
                          .pairs_min = 2,
                          .queries = 5};

RecallConfig joint() {
  auto config = kSmall;
  config.joint = true;
  return config;
}

TEST(Recall, ShowsEachKeyOnceAndAsksOnlyForThose) {
  auto splits = make_recall({.train = 500, .valid = 1, .test = 1}, 1);
  const RecallIds ids({});
  EXPECT_EQ(splits.vocabulary, 1 + 32 + 16 + 1);
  EXPECT_EQ(splits.classes, 16);
  EXPECT_TRUE(splits.per_token);
  for (int64_t i = 0; i < 500; ++i) {
    const auto sample = splits.train->get(i);
    const auto &tokens = sample.tokens, &targets = sample.targets;
    ASSERT_EQ(tokens.size(), 16 * 2 + 1 + 16);
    std::map<int32_t, int32_t> shown;
    for (size_t pair = 0; pair < 32; pair += 2) shown[tokens[pair]] = tokens[pair + 1];
    EXPECT_EQ(shown.size(), 16);
    EXPECT_EQ(tokens[32], ids.separator());
    for (size_t at = 0; at <= 32; ++at) EXPECT_EQ(targets[at], kIgnore);
    for (size_t at = 33; at < 49; ++at) EXPECT_EQ(shown.at(tokens[at]), ids.value(targets[at]));
  }
}

TEST(Recall, WritesAPairAsOneTokenWhenJoint) {
  auto splits = make_recall(joint(), 1);
  const RecallIds ids(joint());
  EXPECT_EQ(splits.vocabulary, 1 + 9 + 9 * 4 + 1);
  for (int64_t i = 0; i < splits.train->size(); ++i) {
    const auto sample = splits.train->get(i);
    const auto &tokens = sample.tokens, &targets = sample.targets;
    auto pairs = tokens.size() - 1 - 5;
    EXPECT_EQ(tokens[pairs], ids.separator());
    for (size_t at = pairs + 1; at < tokens.size(); ++at) {
      auto wanted = ids.pair(tokens[at] - ids.key(0), targets[at]);
      EXPECT_EQ(std::count(tokens.begin(), tokens.begin() + std::ssize(tokens) - 6, wanted), 1);
    }
  }
}

TEST(Recall, VariesItsLengthWhenAsked) {
  auto splits = make_recall(kSmall, 1);
  std::set<int64_t> lengths;
  for (int64_t i = 0; i < splits.train->size(); ++i) lengths.insert(splits.train->length(i));
  EXPECT_EQ(lengths, (std::set<int64_t>{10, 12, 14, 16, 18}));
}

TEST(Recall, UsesAllValuesEquallyOften) {
  auto splits = make_recall({.train = 2000, .valid = 1, .test = 1}, 1);
  std::vector<int64_t> counts(16);
  for (int64_t i = 0; i < 2000; ++i)
    for (auto target : splits.train->get(i).targets)
      if (target != kIgnore) ++counts[static_cast<size_t>(target)];
  for (auto count : counts)
    EXPECT_NEAR(double(count), 2000, 4 * 64);  // queries of a sample share keys
}

TEST(Recall, NamesItsSymbols) {
  auto symbols = RecallIds({.keys = 2, .values = 2}).symbols();
  EXPECT_EQ(symbols, (std::vector<std::string>{"<pad>", "k0", "k1", "v0", "v1", "?"}));
  symbols = RecallIds({.keys = 2, .values = 2, .joint = true}).symbols();
  EXPECT_EQ(symbols, (std::vector<std::string>{"<pad>", "k0", "k1", "k0=v0", "k0=v1", "k1=v0",
                                               "k1=v1", "?"}));
}

TEST(Recall, IsAFunctionOfItsSeed) {
  auto a = make_recall(kSmall, 1), b = make_recall(kSmall, 1), c = make_recall(kSmall, 2);
  EXPECT_EQ(a.checksums, b.checksums);
  EXPECT_NE(a.checksums, c.checksums);
  EXPECT_NE(a.valid->get(0).tokens, a.test->get(0).tokens);
}

TEST(Recall, RefusesImpossibleOptions) {
  auto error = [](const RecallConfig& config) { return error_of([&] { make_recall(config, 1); }); };
  EXPECT_EQ(error({.keys = 8, .pairs = 9}),
            "pairs is 9, but there are 8 keys, and each is shown at most once; raise keys or lower "
            "pairs");
  EXPECT_EQ(error({.pairs = 4, .pairs_min = 5}),
            "pairs_min is 5, above pairs, 4; lower it, or raise pairs");
  EXPECT_EQ(error({.keys = 1000, .values = 100, .joint = true}),
            "keys is 1000 and values is 100: 101002 symbols, but at most 65536 fit; lower keys or "
            "values");
}

TEST(Recall, ReadsBackAsItWasWritten) {
  for (const auto& config : {kSmall, joint()}) {
    Folder folder;
    write_recall(folder.str(), config, 4);
    auto loaded = load_recall(folder.str()), made = make_recall(config, 4);
    for (const auto* name : {"train", "valid", "test"})
      EXPECT_EQ(loaded.checksums.at(name), made.checksums.at(name));
    EXPECT_EQ(loaded.vocabulary, made.vocabulary);
    EXPECT_EQ(loaded.symbols, made.symbols);
    EXPECT_TRUE(loaded.per_token);
  }
}

TEST(Recall, SaysWhichLineIsMalformed) {
  Folder folder;
  write_recall(folder.str(), {.keys = 4, .values = 3, .pairs = 2, .queries = 2}, 4);
  // Keys 1-4, values 5-7, separator 8.
  auto error = [&](const std::string& row) {
    folder.write("recall_val.tsv", "Source\tTarget\n" + row + "\n");
    return error_of([&] { load_recall(folder.str()); }, folder.str());
  };
  EXPECT_EQ(
      error("1 5 2 6 8 1 2\t0 2"),
      "recall_val.tsv:2: answers '0 2' but the pairs shown say '0 1'; the file was changed or "
      "cut");
  EXPECT_EQ(error("1 5 2 6 8 1 2\t0"),
            "recall_val.tsv:2: answers '0' but the pairs shown say '0 1'; the file was changed or "
            "cut");
  EXPECT_EQ(
      error("1 5 2 x 8 1 2\t0 1"),
      "recall_val.tsv:2: 'x' is not an id; expected whole numbers with one blank between them");
  EXPECT_EQ(
      error("1  5\t0"),
      "recall_val.tsv:2: '' is not an id; expected whole numbers with one blank between them");
  EXPECT_EQ(error("1 5 8 1 \t0"), "recall_val.tsv:2: a blank at the end of a column");
  EXPECT_EQ(error("1 5 1 6 8 1 2\t0 1"), "recall_val.tsv:2: token 4 (id 6) shows a key twice");
  EXPECT_EQ(error("5 1 8 1\t0"), "recall_val.tsv:2: token 1 (id 5) is not a key");
  EXPECT_EQ(error("1 2 8 1\t0"), "recall_val.tsv:2: token 2 (id 2) is not a value");
  EXPECT_EQ(error("1 5 8 3\t0"),
            "recall_val.tsv:2: token 4 (id 3) asks for a key that was not shown");
  EXPECT_EQ(error("1 5\t0"), "recall_val.tsv:2: sample of 2 tokens: no separator");
  EXPECT_EQ(error("1 5 8\t0"), "recall_val.tsv:2: sample of 3 tokens: no queries");
  EXPECT_EQ(error("1\t0"), "recall_val.tsv:2: sample of 1 tokens: ends after a key");
  EXPECT_EQ(error("1 5 8 1\t0"),
            "recall_val.tsv: 1 samples, but manifest.json says 2000; the file was cut or changed; "
            "make it again with `longbow data make`");
}

TEST(Recall, SaysWhenAJointPairIsNone) {
  const RecallIds ids({.keys = 2, .values = 2, .joint = true});
  auto error = error_of([&] { recall_targets(std::vector<int32_t>{1, 7, 1}, ids, {"f", 2}); });
  EXPECT_EQ(error, "f:2: token 1 (id 1) is not a pair");
}

TEST(Recall, NeedsItsManifest) {
  Folder folder;
  write_recall(folder.str(), kSmall, 4);
  std::filesystem::remove(folder.file("manifest.json"));
  EXPECT_EQ(
      error_of([&] { load_recall(folder.str()); }, folder.str()),
      "manifest.json: no such file; it says what the ids in recall_{train,val,test}.tsv mean");
}

TEST(Recall, IsNeverReadAfterAnAccident) {
  for (const auto& config : {kSmall, joint()}) {
    Folder folder;
    write_recall(folder.str(), config, 4);
    const auto whole = folder.read("recall_test.tsv");
    for (uint64_t i = 0; i < 500; ++i) {
      auto text = mutated(whole, Stream(3, "accident").at(i));
      if (text == whole) continue;
      folder.write("recall_test.tsv", text);
      auto message = error_of([&] { load_recall(folder.str()); }, folder.str());
      ASSERT_TRUE(message.starts_with("recall_test.tsv:")) << message;
      ASSERT_EQ(message.find_first_of("\r\n"), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace longbow
