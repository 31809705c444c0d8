#include "longbow/tasks/objectives.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/tensor.h"
#include "tests/tasks/samples.h"

namespace longbow {
namespace {

// Those that give a class for a sequence or for a token, and a small model of each.
const std::map<std::string, std::string> kClassifiers = {
    {"classification", "{width: 8, layers: 1}"},
    {"characters", "{width: 8, heads: 2, layers: 1, hashes: 2, buckets: 32, rate: 2}"},
    {"perceiver", "{width: 8, heads: 2, layers: 1, latents: 4}"}};

std::string mistake(const std::string& objective, const Splits& splits) {
  return error_of([&] { made(objective, splits, kClassifiers.at(objective)); });
}

Splits tagged() {
  Splits splits = {.vocabulary = 10, .classes = 2};
  const auto list = std::make_shared<SampleList>(
      std::vector<Sample>{{.tokens = {1, 2}, .targets = {kIgnore, 1}}}, /*per_token=*/true);
  set_splits(splits, list, list, list);
  return splits;
}

TEST(Objectives, OfClassesReadSequencesWithAClass) {
  for (const auto& [objective, model] : kClassifiers) {
    EXPECT_EQ(mistake(objective, splits_of({{.tokens = {1, 2}, .targets = {1}}}, 2)), "");
    EXPECT_EQ(mistake(objective, tagged()), "");
    const auto what = "objective " + objective +
                      ": the samples are not sequences with a class; leave objective out, to take "
                      "what the data is made for";
    EXPECT_EQ(mistake(objective, splits_of({{.tokens = {1, 2}, .values = {0.5F}}})), what);
    EXPECT_EQ(mistake(objective, splits_of({{.tokens = {1, 2}}})), what);
    EXPECT_EQ(mistake(objective, splits_of({{.tokens = {1, 2}, .targets = {0, 1}}}, 2)), what);
    EXPECT_EQ(mistake(objective, splits_of({{.tokens = {1, 2}, .second = {3}}})), what);
  }
}

TEST(Objectives, OfClassesDoNotReadHalfOfAPair) {
  for (const auto& [objective, model] : kClassifiers)
    EXPECT_EQ(
        mistake(objective, splits_of({{.tokens = {1}, .targets = {0}, .second = {2}}}, 2)),
        "objective " + objective +
            ": it reads one sequence, but the samples are pairs; objective: pairs reads both");
}

TEST(Objectives, AClassOfASequenceNeedsOneRow) {
  const auto check = [](const Splits& splits) {
    return error_of([&] { made("classification", splits, "width: 8\npooling: none"); });
  };
  EXPECT_EQ(check(splits_of({{.tokens = {1, 2}, .targets = {1}}}, 2)),
            "model:2: model.pooling none gives a row for every token; a sample has one; write "
            "mean, first, max, attention, pma or class_token");
  EXPECT_EQ(check(tagged()), "");
}

}  // namespace
}  // namespace longbow
