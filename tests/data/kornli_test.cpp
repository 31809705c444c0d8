#include <gtest/gtest.h>

#include "tests/data/published.h"

namespace longbow {
namespace {

using Counts = std::map<std::string, int64_t>;

const std::string kHeader = "sentence1\tsentence2\tgold_label\n";

std::string rows(int premises, const std::string& name) {
  std::string text = kHeader;
  for (int i = 0; i < premises; ++i)
    for (const auto* label : {"entailment", "neutral", "contradiction"})
      text += name + std::to_string(i) + "\t\"" + label + "\t" + label + "\n";
  return text;
}

TEST(Kornli, TrainsOnBothTranslatedFiles) {
  const Folder folder;
  folder.write("snli_1.0_train.ko.tsv", rows(2, "snli"));
  folder.write("multinli.train.ko.tsv", rows(3, "multi"));
  folder.write("xnli.dev.ko.tsv", rows(4, "dev"));
  folder.write("xnli.test.ko.tsv", rows(5, "test"));
  const auto splits = load_published({.set = "kornli", .path = folder.str()});
  EXPECT_EQ(splits.labels, (std::vector<std::string>{"entailment", "neutral", "contradiction"}));
  EXPECT_EQ(splits.train->size(), 15);
  EXPECT_EQ(splits.valid->size(), 12);
  EXPECT_EQ(classes_in(splits, *splits.test),
            (Counts{{"entailment", 5}, {"neutral", 5}, {"contradiction", 5}}));
  EXPECT_EQ(text_of(splits.train->get(0).tokens), "snli0");
  EXPECT_EQ(text_of(splits.train->get(14).tokens), "multi2");
  EXPECT_EQ(text_of(splits.train->get(14).second), "\"contradiction");
  EXPECT_EQ(splits.checksums.count("multinli.train.ko.tsv"), 1u);
}

// However the file is named.
TEST(Kornli, KeepsThePremisesOfItsSplitsApartWhenItTrainsOnDev) {
  const Folder folder;
  folder.write("xnli.dev.ko.tsv.gz", rows(60, "dev"));
  folder.write("xnli.test.ko.tsv", rows(5, "test"));
  for (const std::string name :
       {"xnli.dev.ko.tsv", "xnli.dev.ko.tsv.gz", "./xnli.dev.ko.tsv", "././xnli.dev.ko.tsv.gz"}) {
    SCOPED_TRACE(name);
    const auto splits =
        load_published({.set = "kornli", .path = folder.str(), .options = "{train: " + name + "}"});
    EXPECT_EQ(splits.train->size() + splits.valid->size(), 180);
    ASSERT_GT(splits.valid->size(), 0);
    const auto trained = texts_of(*splits.train);
    for (const auto& premise : texts_of(*splits.valid)) EXPECT_FALSE(trained.contains(premise));
  }
}

TEST(Kornli, SaysWhichFileIsMissing) {
  const Folder folder;
  folder.write("xnli.dev.ko.tsv", rows(2, "dev"));
  folder.write("xnli.test.ko.tsv", rows(2, "test"));
  EXPECT_EQ(refusal(folder, "kornli"),
            "snli_1.0_train.ko.tsv: no such file; `longbow data list kornli` tells which files "
            "belong into data.path");
  folder.write("snli_1.0_train.ko.tsv", rows(2, "snli"));
  EXPECT_EQ(refusal(folder, "kornli"),
            "multinli.train.ko.tsv: no such file; `longbow data list kornli` tells which files "
            "belong into data.path");
}

TEST(Kornli, HasThePublishedPairs) {
  const auto path = collected("kornlu");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto splits = load_published(
      {.set = "kornli", .path = path.string(), .options = "{train: xnli.dev.ko.tsv}"});
  EXPECT_EQ(classes_in(splits, *splits.train) + classes_in(splits, *splits.valid),
            (Counts{{"entailment", 830}, {"neutral", 830}, {"contradiction", 830}}));
  EXPECT_EQ(classes_in(splits, *splits.test),
            (Counts{{"entailment", 1670}, {"neutral", 1670}, {"contradiction", 1670}}));
}

}  // namespace
}  // namespace longbow
