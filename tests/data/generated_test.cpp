#include "longbow/data/readers/generated.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longbow/data/readers/source.h"
#include "tests/data/folder.h"
#include "tests/data/mutation.h"

namespace longbow {
namespace {

DataConfig small(const std::string& name) {
  const std::string own = name == "match"   ? "topics: 3, words: 2, length: 5"
                          : name == "count" ? "words: 2, length: 5, pairs: true"
                                            : "words: 3, length: 6, width: 2";
  return {.name = name,
          .options = parse_yaml("{train: 9, valid: 4, test: 3, " + own + "}", "options")};
}

struct Generated : testing::TestWithParam<const char*> {
  const DataConfig config = small(GetParam());
};

TEST_P(Generated, IsAFunctionOfItsSeed) {
  auto again = config, other = config;
  other.seed = 2;
  const auto sums = load_data(config).checksums;
  EXPECT_EQ(load_data(again).checksums, sums);
  EXPECT_NE(load_data(other).checksums, sums);
  EXPECT_NE(sums.at("valid"), sums.at("test"));
}

TEST_P(Generated, ReadsBackAsItWasWritten) {
  Folder folder;
  make_data(config.name, folder.str(), config.options, 1);
  auto from_files = config;
  from_files.path = folder.str();
  const auto made = load_data(config), loaded = load_data(from_files);
  for (const auto* split : {"train", "valid", "test"})
    EXPECT_EQ(loaded.checksums.at(split), made.checksums.at(split));
  EXPECT_EQ(loaded.vocabulary, made.vocabulary);
  EXPECT_EQ(static_cast<int64_t>(loaded.symbols.size()), loaded.vocabulary);
  EXPECT_EQ(loaded.max_length, made.max_length);
}

TEST_P(Generated, IsNeverReadAfterAnAccident) {
  Folder folder;
  make_data(config.name, folder.str(), config.options, 1);
  auto from_files = config;
  from_files.path = folder.str();
  const auto file = config.name + "_test.tsv", whole = folder.read(file);
  for (uint64_t i = 0; i < 300; ++i) {
    const auto text = mutated(whole, Stream(3, "accident").at(i));
    if (text == whole) continue;
    folder.write(file, text);
    const auto message = error_of([&] { load_data(from_files); }, folder.str());
    ASSERT_TRUE(message.starts_with(file + ":")) << message;
    ASSERT_EQ(message.find_first_of("\r\n"), std::string::npos) << message;
  }
}

TEST_P(Generated, NeedsItsManifestAndAllItsTokens) {
  Folder folder;
  make_data(config.name, folder.str(), config.options, 1);
  std::filesystem::remove(folder.file("manifest.json"));
  auto wrong = config;
  wrong.path = folder.str();
  EXPECT_EQ(error_of([&] { load_data(wrong); }, folder.str()),
            "manifest.json: no such file; it says what the ids in " + config.name +
                "_{train,val,test}.tsv mean");
  wrong = config;
  wrong.max_tokens = 4;
  const auto longest = config.name == "needle" ? "6" : "5";
  EXPECT_EQ(error_of([&] { load_data(wrong); }),
            "data.max_tokens is 4, which would cut " + config.name + " samples of up to " +
                longest + " tokens; their answers would change; lower data." + config.name +
                ".length instead");
}

INSTANTIATE_TEST_SUITE_P(All, Generated, testing::Values("match", "count", "needle"),
                         [](const auto& row) { return std::string(row.param); });

TEST(DrawnLength, VariesBetweenItsBounds) {
  Stream stream(1, "lengths");
  std::vector<int> seen(6);
  for (int i = 0; i < 200; ++i) ++seen[static_cast<size_t>(drawn_length(3, 5, stream))];
  EXPECT_EQ(seen[0] + seen[1] + seen[2], 0);
  EXPECT_GT(std::min({seen[3], seen[4], seen[5]}), 30);
  EXPECT_EQ(drawn_length(0, 5, stream), 5);
  EXPECT_EQ(error_of([] { check_length_min(6, 5); }),
            "length_min is 6, above length, 5; lower it, or raise length");
  EXPECT_EQ(error_of([] { check_length_min(5, 5); }), "no error");
}

}  // namespace
}  // namespace longbow
