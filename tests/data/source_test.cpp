#include "longbow/data/readers/source.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "longbow/data/readers/manifest.h"
#include "tests/data/folder.h"

namespace longbow {
namespace {

// A cache of their own for these tests; `verify` asks the environment for it.
class Source : public testing::Test {
 protected:
  Source() { setenv("LONGBOW_CACHE", cache_.str().c_str(), 1); }
  ~Source() override { unsetenv("LONGBOW_CACHE"); }

 private:
  const Folder cache_;
};

// A few short samples of a data set that is generated.
DataConfig small(const std::string& name) {
  auto options = Node::map(
      {{"train", Node::integer(6)}, {"valid", Node::integer(3)}, {"test", Node::integer(2)}});
  if (name == "listops") {
    options["min_length"] = Node::integer(5);
    options["max_length"] = Node::integer(40);
  }
  return {.name = name, .options = options};
}

std::vector<DataSource> generated_sources() {
  auto all = data_sources();
  std::erase_if(all, [](const DataSource& source) { return !source.make; });
  return all;
}

TEST_F(Source, EveryRowSaysWhatItIs) {
  std::string names;
  for (const auto& source : data_sources()) {
    names += source.name + " ";
    EXPECT_FALSE(source.description.empty()) << source.name;
    EXPECT_FALSE(source.objective.empty()) << source.name;
    EXPECT_FALSE(source.options.empty()) << source.name;
    EXPECT_FALSE(source.recipe.config.empty()) << source.name;
    EXPECT_EQ(source.resolve(Node::map()).entries.size(), source.options.size()) << source.name;
  }
  for (const auto* name : {"count ", "listops ", "markov ", "match ", "needle ", "recall "})
    EXPECT_NE(names.find(name), std::string::npos) << name;
}

TEST_F(Source, GeneratesItsSamples) {
  for (const auto& source : generated_sources()) {
    EXPECT_FALSE(source.files.empty()) << source.name;
    EXPECT_GT(load_data(small(source.name)).vocabulary, 0) << source.name;
  }
}

TEST_F(Source, MakesAndLoadsTheSameSamplesAsInMemory) {
  for (const auto& source : generated_sources()) {
    Folder folder;
    auto config = small(source.name);
    make_data(source.name, folder.str(), config.options, 5);
    for (const auto& file : source.files)
      EXPECT_TRUE(std::filesystem::exists(folder.file(file))) << file;
    config.seed = 5;
    auto in_memory = load_data(config);
    config.path = folder.str();
    config.seed = 99;
    auto loaded = load_data(config);
    for (const auto* split : {"train", "valid", "test"})
      EXPECT_EQ(loaded.checksums.at(split), in_memory.checksums.at(split));
    const auto manifest = find_manifest(folder.str());
    EXPECT_EQ(verify(folder.str()).size(), manifest->files.size() + 2);
  }
}

TEST_F(Source, ReadsTheOptionsOfItsDataSetOnly) {
  const auto node =
      parse_yaml("{name: recall, max_tokens: 100, recall: {keys: 8, joint: true}}", "a.yaml");
  const auto config = read<DataConfig>(node, "data");
  EXPECT_EQ(config.name, "recall");
  EXPECT_EQ(config.max_tokens, 100);
  EXPECT_EQ(to_yaml(config.options), to_yaml(parse_yaml("{keys: 8, joint: true}", "")));
  EXPECT_EQ(to_yaml(written(read<DataConfig>(written(config)))), to_yaml(written(config)));
  EXPECT_EQ(error_of([] { read<DataConfig>(parse_yaml("{name: recall, markov: {}}", "a.yaml")); }),
            "a.yaml:1: unknown key 'markov'; one of: name, path, seed, max_tokens, tokenizer, "
            "cache, recall");
}

TEST_F(Source, ResolvesEveryOption) {
  const auto options = find_data_source("recall").resolve(parse_yaml("{keys: 8}", "a.yaml"));
  EXPECT_EQ(options.find("keys")->text, "8");
  EXPECT_EQ(options.find("values")->text, "16");
  EXPECT_EQ(
      error_of([] { find_data_source("recall").resolve(parse_yaml("\n{keys: 0}", "a.yaml")); }),
      "a.yaml:2: data.recall.keys is 0, out of range; it may be 1..60000");
}

// What longbow 0.1 wrote: the options of every data set, whatever the run learnt.
TEST_F(Source, DropsTheOtherSetsOfAnOldConfig) {
  const std::string all =
      "{name: recall, path: '', listops: {train: 1}, recall: {keys: 8}, match: {}, count: {}, "
      "needle: {}, markov: {}, reverse: {}}";
  auto old = parse_yaml(all, "config.yaml");
  drop_other_sets(old);
  EXPECT_EQ(to_yaml(old), to_yaml(parse_yaml("{name: recall, path: '', recall: {keys: 8}}", "")));
  auto mistaken = parse_yaml("{name: recall, recall: {}, markov: {}}", "run.yaml");
  drop_other_sets(mistaken);
  EXPECT_NE(mistaken.find("markov"), nullptr) << "a mistake of a user is not dropped";
}

std::vector<std::string> names_of_sources() {
  std::vector<std::string> names;
  for (const auto& source : data_sources()) names.push_back(source.name);
  return names;
}

TEST_F(Source, SaysWhenItKnowsNoSuchDataSet) {
  EXPECT_EQ(error_of([] { load_data({.name = "listop"}); }),
            "unknown data set 'listop'; did you mean 'listops'?");
  EXPECT_EQ(error_of([] { make_data("imagenet", "x", {}, 1); }),
            "unknown data set 'imagenet'; " + suggest("imagenet", names_of_sources()));
}

TEST_F(Source, SaysWhenItKnowsNoSuchOption) {
  auto options = parse_yaml("{max_lenght: 40}", "options");
  EXPECT_EQ(error_of([&] { make_data("listops", "x", options, 1); }),
            "options:1: unknown key 'max_lenght'; did you mean 'max_length'?");
}

TEST_F(Source, NamesTheFileItExpected) {
  Folder folder;
  for (const auto& source : generated_sources()) {
    auto config = small(source.name);
    config.path = folder.file("nowhere");
    auto message = error_of([&] { load_data(config); }, folder.str());
    EXPECT_TRUE(message.starts_with("nowhere: no such folder; it should hold " + source.files[0]))
        << message;
  }
}

TEST_F(Source, ReportsSamplesThatItCut) {
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

TEST_F(Source, DoesNotCutTargetsThatAreReversed) {
  auto config = small("reverse");
  config.max_tokens = 8;
  const auto message = error_of([&] { load_data(config); });
  EXPECT_TRUE(message.starts_with("max_tokens 8 would cut reverse samples of up to ")) << message;
  EXPECT_TRUE(message.ends_with("a target begins with the end of its source; lower length instead"))
      << message;
}

TEST_F(Source, DoesNotCutTheQueriesOfRecall) {
  auto config = small("recall");
  config.max_tokens = 40;
  EXPECT_EQ(error_of([&] { load_data(config); }),
            "max_tokens 40 would cut recall samples of up to 49 tokens; their queries are at the "
            "end; lower pairs or queries instead");
}

}  // namespace
}  // namespace longbow
