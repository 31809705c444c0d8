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
  const auto options = find_data_source("recall").resolve(parse_yaml("{keys: 48}", "a.yaml"));
  EXPECT_EQ(options.find("keys")->text, "48");
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
  EXPECT_TRUE(
      message.starts_with("data.max_tokens is 8, which would cut reverse samples of up to "))
      << message;
  EXPECT_TRUE(message.ends_with("a target begins with the end of its source; lower length instead"))
      << message;
}

TEST_F(Source, DoesNotCutTheQueriesOfRecall) {
  auto config = small("recall");
  config.max_tokens = 40;
  EXPECT_EQ(error_of([&] { load_data(config); }),
            "data.max_tokens is 40, which would cut recall samples of up to 49 tokens; their "
            "queries are at the end; lower pairs or queries instead");
  config.places = parse_yaml("path: ''\nmax_tokens: 40", "a.yaml");
  EXPECT_TRUE(
      error_of([&] { load_data(config); }).starts_with("a.yaml:2: data.max_tokens is 40, which "));
}

// Before any data is opened, and whether it is read from files or not.
TEST_F(Source, NamesTheLineOfOptionsThatDoNotGoTogether) {
  const auto mistake = [](const std::string& name, const std::string& options) {
    return error_of([&] { find_data_source(name).resolve(parse_yaml(options, "a.yaml")); });
  };
  EXPECT_EQ(mistake("listops", "min_length: 50\nmax_length: 50"),
            "a.yaml:2: data.listops.max_length is 50 and min_length is 50: no length lies between "
            "them; both ends are excluded");
  EXPECT_EQ(mistake("recall", "keys: 8\npairs: 9"),
            "a.yaml:2: data.recall.pairs is 9, but there are 8 keys, and each is shown at most "
            "once; raise keys or lower pairs");
  EXPECT_EQ(mistake("markov", "words: 4\nfollowers: 5"),
            "a.yaml:2: data.markov.followers is 5, but there are 4 words; raise words or lower "
            "followers");
  EXPECT_EQ(mistake("match", "words: 100\ntopics: 1000"),
            "a.yaml:2: data.match.topics is 1000 and words is 100: 100001 symbols, but at most "
            "65536 fit; lower topics or words");
  EXPECT_EQ(mistake("needle", "length: 4\nwidth: 4"),
            "a.yaml:2: data.needle.width is 4, but a marker and so many tokens do not fit into 4; "
            "raise the length or lower width");
  for (const std::string name : {"count", "copy", "match", "needle", "reverse"})
    EXPECT_EQ(
        mistake(name, "length: 8\nlength_min: 9"),
        "a.yaml:2: data." + name + ".length_min is 9, above length, 8; lower it, or raise length");
  EXPECT_EQ(mistake("pathfinder", "size: 48"),
            "a.yaml:1: data.pathfinder.size is 48, but there are no such pictures; one of: 32, 64, "
            "128, 256");
  EXPECT_EQ(mistake("csv", "tokens: bytes\ntargets: tags"),
            "a.yaml:2: data.csv.targets is tags, but tokens are not words; set tokens: words");
}

TEST_F(Source, NamesTheLineOfOptionsThatNoFileCanBeReadWith) {
  const auto mistake = [](const std::string& name, const std::string& options) {
    return error_of([&] { find_data_source(name).resolve(parse_yaml(options, "a.yaml")); });
  };
  const std::string fractions = "valid_fraction: 0.6\ntest_fraction: 0.4";
  for (const std::string name : {"table", "lines", "parallel", "questions"}) {
    EXPECT_EQ(mistake(name, fractions),
              "a.yaml:2: data." + name +
                  ".test_fraction and valid_fraction leave no training records; their sum is "
                  "below 1");
    EXPECT_EQ(mistake(name, fractions + "\ntest: t"), "no error") << "a split with a file";
  }
  EXPECT_EQ(mistake("lines", "unit: section\nheading: ''"),
            "a.yaml:2: data.lines.heading is empty; unit: section needs a regular expression for "
            "its headings");
  EXPECT_EQ(mistake("table", "id: id\nlabel_map: [a]"),
            "a.yaml:2: data.table.label_map is not a map; write {label: class, ...}");
  EXPECT_EQ(mistake("table", "text: ''"),
            "a.yaml:1: data.table.text is empty; name the column of the text");
  EXPECT_EQ(mistake("parallel", "min_length: 3\nmax_length: 2"),
            "a.yaml:2: data.parallel.max_length is 2, below min_length, 3; no pair would be left");
  EXPECT_EQ(mistake("parallel", "target: ''"),
            "a.yaml:1: data.parallel.target is empty; name the ending or the column");
  EXPECT_EQ(mistake("wmt14", "max_ratio: 0.5"),
            "a.yaml:1: data.wmt14.max_ratio is 0.5; it is 0, or at least 1");
}

TEST_F(Source, MakesNothingOfOptionsThatDoNotGoTogether) {
  const Folder folder;
  const auto options = parse_yaml("min_length: 50\nmax_length: 50", "options");
  EXPECT_EQ(error_of([&] { make_data("listops", folder.file("made"), options, 1); }),
            "options:2: listops.max_length is 50 and min_length is 50: no length lies between "
            "them; both ends are excluded");
  EXPECT_FALSE(std::filesystem::exists(folder.file("made")));
}

}  // namespace
}  // namespace longbow
