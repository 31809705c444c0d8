#include "longbow/data/samples/facts.h"

#include <gtest/gtest.h>

#include "tests/data/folder.h"

namespace longbow {
namespace {

Splits splits_of(const std::vector<Sample>& samples) {
  Splits splits = {.vocabulary = 9, .classes = 2};
  const auto list = std::make_shared<SampleList>(samples, /*per_token=*/false);
  set_splits(splits, list, list, list);
  return splits;
}

DataFacts stored(const Splits& splits) {
  return parse_facts(to_json(facts_of(splits)), "vocabulary.json");
}

std::string refused(const std::string& from, const std::string& to) {
  auto splits = splits_of({{.tokens = {3}, .targets = {1}}});
  splits.labels = {"no", "yes"};
  auto text = to_json(facts_of(splits));
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << text;
  text.replace(at, from.size(), to);
  return error_of([&] { parse_facts(text, "vocabulary.json"); });
}

TEST(DataFacts, AreThoseOfTheDataButForItsSamples) {
  auto splits = splits_of({{.tokens = {1, 2}, .targets = {0, 1}, .second = {7, 8, 2}}});
  splits.second_vocabulary = 12;
  splits.begin = 1;
  splits.end = 2;
  splits.unknown = 5;
  splits.symbols = {"<pad>", "a", "\"b\"", "ä", "", "e"};
  splits.second_symbols = {"<pad>", "<begin>", "<end>"};
  splits.labels = {"no", "yes"};
  splits.image = {.height = 1, .width = 3};
  const auto kept = stored(splits).splits;
  EXPECT_EQ(kept.vocabulary, 9);
  EXPECT_EQ(kept.second_vocabulary, 12);
  EXPECT_EQ(kept.classes, 2);
  EXPECT_EQ(kept.max_length, 3);
  EXPECT_EQ(kept.begin, 1);
  EXPECT_EQ(kept.end, 2);
  EXPECT_EQ(kept.unknown, 5);
  EXPECT_EQ(kept.symbols, splits.symbols);
  EXPECT_EQ(kept.second_symbols, splits.second_symbols);
  EXPECT_EQ(kept.labels, splits.labels);
  EXPECT_EQ(kept.image.height, 1);
  EXPECT_EQ(kept.image.width, 3);
  for (const auto& split : {kept.train, kept.valid, kept.test}) {
    EXPECT_EQ(split->size(), 0);
    EXPECT_TRUE(split->has_second());
    EXPECT_FALSE(split->per_token());
    EXPECT_EQ(split->targets(), 2);
    EXPECT_EQ(split->values(), 0);
  }
}

TEST(DataFacts, SayWhetherSamplesHaveValuesOrATargetForEveryToken) {
  const auto values = stored(splits_of({{.tokens = {4}, .values = {0.5F, 1.F}}})).splits;
  EXPECT_EQ(values.train->values(), 2);
  EXPECT_FALSE(values.train->has_second());
  Splits marked = {.vocabulary = 5, .classes = 3};
  const auto list = std::make_shared<SampleList>(
      std::vector<Sample>{{.tokens = {1, 2}, .targets = {kIgnore, 1}}}, /*per_token=*/true);
  set_splits(marked, list, list, list);
  const auto kept = stored(marked).splits;
  EXPECT_TRUE(kept.per_token);
  EXPECT_TRUE(kept.train->per_token());
}

TEST(DataFacts, CountWhatTrainingSamplesBeginWith) {
  const auto facts = stored(splits_of({{.tokens = {5, 1}}, {.tokens = {2}}, {.tokens = {5, 2}}}));
  EXPECT_EQ(facts.first_tokens, (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(facts.first_counts, (std::vector<int64_t>{1, 2}));
}

TEST(DataFacts, AFileThatDoesNotFitTogetherIsRefused) {
  const std::string hint = "; the file is not as `longbow train` wrote it";
  EXPECT_EQ(refused("\"classes\": 2", "\"classes\": 3"),
            "vocabulary.json: 2 labels for 3 classes" + hint);
  EXPECT_EQ(refused("\"begin\": 0", "\"begin\": 99999"),
            "vocabulary.json: begin or end is not an id" + hint);
  EXPECT_EQ(refused("\"first_counts\": [", "\"first_counts\": [0,"),
            "vocabulary.json: first_tokens and first_counts do not fit together" + hint);
  EXPECT_EQ(refused("\"vocabulary\": 9", "\"vocabulary\": 0"),
            "vocabulary.json: vocabulary is 0" + hint);
  EXPECT_NE(refused("\"symbols\"", "\"symbol\"").find("unknown key 'symbol'"), std::string::npos);
}

}  // namespace
}  // namespace longbow
