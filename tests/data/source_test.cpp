#include "longbow/data/source.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longbow/data/manifest.h"
#include "tests/data/folder.h"

namespace longbow {
namespace {

DataConfig small(const std::string& name) {
  DataConfig config{.name = name};
  config.listops = {.train = 6, .valid = 3, .test = 2, .min_length = 5, .max_length = 40};
  config.recall = {.train = 6, .valid = 3, .test = 2};
  config.match = {.train = 6, .valid = 3, .test = 2};
  config.count = {.train = 6, .valid = 3, .test = 2};
  config.needle = {.train = 6, .valid = 3, .test = 2};
  config.markov = {.train = 6, .valid = 3, .test = 2};
  config.reverse = {.train = 6, .valid = 3, .test = 2};
  return config;
}

TEST(Source, NamesItsDataSets) {
  std::string names;
  for (const auto& source : data_sources()) {
    names += source.name + " ";
    EXPECT_FALSE(source.description.empty());
    EXPECT_EQ(source.files.size(), 3);
    EXPECT_FALSE(source.options.empty());
    EXPECT_GT(load_data(small(source.name)).vocabulary, 0);
  }
  EXPECT_EQ(names, "listops recall match count needle markov reverse ");
}

TEST(Source, MakesAndLoadsTheSameSamplesAsInMemory) {
  for (const auto& source : data_sources()) {
    Folder folder;
    auto config = small(source.name);
    const auto all = written(config);
    const auto& options = *all.find(source.name);
    make_data(source.name, folder.str(), options, 5);
    for (const auto& file : source.files)
      EXPECT_TRUE(std::filesystem::exists(folder.file(file))) << file;
    config.seed = 5;
    auto in_memory = load_data(config);
    config.path = folder.str();
    config.seed = 99;
    auto loaded = load_data(config);
    for (const auto* split : {"train", "valid", "test"})
      EXPECT_EQ(loaded.checksums.at(split), in_memory.checksums.at(split));
    EXPECT_EQ(verify(folder.str()).size(), 5);
  }
}

TEST(Source, ReadsItsConfig) {
  auto node =
      parse_yaml("{name: recall, max_tokens: 100, recall: {keys: 8, joint: true}}", "a.yaml");
  auto config = read<DataConfig>(node, "data");
  EXPECT_EQ(config.name, "recall");
  EXPECT_EQ(config.max_tokens, 100);
  EXPECT_EQ(config.recall.keys, 8);
  EXPECT_TRUE(config.recall.joint);
  EXPECT_EQ(config.listops.train, 96000);
  EXPECT_EQ(to_yaml(written(read<DataConfig>(written(config)))), to_yaml(written(config)));
}

TEST(Source, SaysWhenItKnowsNoSuchDataSet) {
  EXPECT_EQ(error_of([] { load_data({.name = "listop"}); }),
            "unknown data set 'listop'; did you mean 'listops'?");
  EXPECT_EQ(error_of([] { make_data("imagenet", "x", {}, 1); }),
            "unknown data set 'imagenet'; one of: listops, recall, match, count, needle, markov, "
            "reverse");
}

TEST(Source, SaysWhenItKnowsNoSuchOption) {
  auto options = parse_yaml("{max_lenght: 40}", "options");
  EXPECT_EQ(error_of([&] { make_data("listops", "x", options, 1); }),
            "options:1: unknown key 'max_lenght'; did you mean 'max_length'?");
}

TEST(Source, NamesTheFileItExpected) {
  Folder folder;
  for (const auto& source : data_sources()) {
    auto config = small(source.name);
    config.path = folder.file("nowhere");
    auto message = error_of([&] { load_data(config); }, folder.str());
    EXPECT_EQ(message, "nowhere: no such folder; it should hold " + source.files[0] + ", " +
                           source.files[1] + " and " + source.files[2]);
  }
}

TEST(Source, ReportsSamplesThatItCut) {
  auto config = small("listops");
  config.max_tokens = 6;
  testing::internal::CaptureStderr();
  auto splits = load_data(config);
  auto log = testing::internal::GetCapturedStderr();
  EXPECT_GT(splits.truncated, 0);
  EXPECT_NE(
      log.find("listops: " + std::to_string(splits.truncated) + " of 11 samples cut to 6 tokens"),
      std::string::npos)
      << log;
}

TEST(Source, DoesNotCutTargetsThatAreReversed) {
  auto config = small("reverse");
  config.max_tokens = 8;
  const auto message = error_of([&] { load_data(config); });
  EXPECT_TRUE(message.starts_with("max_tokens 8 would cut reverse samples of up to ")) << message;
  EXPECT_TRUE(message.ends_with("a target begins with the end of its source; lower length instead"))
      << message;
}

TEST(Source, DoesNotCutTheQueriesOfRecall) {
  auto config = small("recall");
  config.max_tokens = 40;
  EXPECT_EQ(error_of([&] { load_data(config); }),
            "max_tokens 40 would cut recall samples of up to 49 tokens; their queries stand at the "
            "end; lower pairs or queries instead");
}

}  // namespace
}  // namespace longbow
