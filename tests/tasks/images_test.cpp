#include "longbow/tasks/images.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "longbow/data/samples/facts.h"
#include "tests/support/tensor.h"
#include "tests/tasks/samples.h"

namespace longbow {
namespace {

// Images of two rows and three columns.
Splits images() {
  Splits splits = {.vocabulary = kPixelIds, .classes = 2, .image = {.height = 2, .width = 3}};
  const auto list = std::make_shared<SampleList>(
      std::vector<Sample>{{.tokens = {1, 1, 1, 256, 256, 256}, .targets = {0}},
                          {.tokens = {1, 256, 1, 256, 1, 256}, .targets = {1}},
                          {.tokens = {52, 52, 52, 52, 52, 52}, .targets = {1}}},
      /*per_token=*/false);
  set_splits(splits, list, list, list);
  return splits;
}

double number(const Node& tree, const char* part, const char* key) {
  return as_number(*tree.find(part)->find(key), key);
}

TEST(Images, MeanAndDeviationAreThoseOfTheTrainingSplit) {
  const auto task = made("classification", images(), "{width: 8, layers: 1, input: pixels}");
  // Six pixels of 0, six of 1 and six of 0.2.
  const double mean = (6 + 6 * 0.2) / 18, square = (6 + 6 * 0.04) / 18;
  const auto config = task->model_config();
  EXPECT_NEAR(number(config, "pixels", "mean"), mean, 1e-9);
  EXPECT_NEAR(number(config, "pixels", "deviation"), std::sqrt(square - mean * mean), 1e-9);
  const auto again = find_objective("classification").make(facts_of(images()).splits, config, {});
  EXPECT_EQ(to_yaml(again->model_config()), to_yaml(config)) << "known without the samples";
  const auto given =
      made("classification", images(),
           "{width: 8, layers: 1, input: pixels, pixels: {mean: 0.5, deviation: 0.5}}");
  EXPECT_EQ(number(given->model_config(), "pixels", "mean"), 0.5);
}

TEST(Images, AxialPositionsHaveTheColumnsOfTheImage) {
  const auto columns = [](const std::string& more) {
    const auto task = made("classification", images(),
                           "{width: 8, layers: 1, positions: axial" + more + "}", {.bucket = 32});
    return number(task->model_config(), "axial", "columns");
  };
  EXPECT_EQ(columns(""), 3) << "though 32 padded tokens are nearly a square of 6";
  EXPECT_EQ(columns(", axial: {columns: 4}"), 4);
}

TEST(Images, HiddenPixelsAreGuessed) {
  const auto task =
      made("masked_lm", images(),
           "{width: 8, layers: 1, input: pixels, tied: false, masking: {fraction: 0.5, masked: 1, "
           "random: 0}}");
  const auto batch = batch_of(*task, 6);
  const auto outcome = task->run(batch, Random::from_seed(3));
  const auto hidden = outcome.sums.at("count").item<double>();
  EXPECT_GT(hidden, 2);
  EXPECT_LT(hidden, 16);
  EXPECT_NEAR(outcome.loss.item<double>() / hidden, std::log(257), 1.0);
  outcome.loss.backward();
  const auto weights = task->model().named_parameters();
  for (const auto* name : {"encoder.embedding.pixels.mask", "encoder.embedding.pixels.value.weight",
                           "encoder.embedding.pixels.value.bias"})
    EXPECT_GT(weights[name].grad().abs().sum().item<double>(), 0) << name;
}

TEST(Images, OnlyImagesHavePixels) {
  const auto mistake = [](const std::string& objective, const std::string& model) {
    return error_of([&] {
      made(objective, splits_of({{.tokens = {1}, .targets = {0}}}, 2),
           "\n{width: 8, " + model + "}");
    });
  };
  EXPECT_EQ(
      mistake("classification", "input: pixels"),
      "model:2: model.input is pixels, but the samples are not images; leave it out; cifar10, "
      "mnist and pathfinder are images");
  EXPECT_EQ(mistake("replaced_tokens", "input: pixels"),
            "model:2: replaced_tokens reads tokens, but model.input is pixels; leave model.input "
            "out");
  EXPECT_EQ(mistake("perceiver_ar", "input: pixels"),
            "model:2: perceiver_ar reads tokens, but model.input is pixels; leave model.input out");
  EXPECT_EQ(mistake("characters", "input: pixels"),
            "model:2: a model of characters reads tokens, but model.input is pixels; leave "
            "model.input out");
}

}  // namespace
}  // namespace longbow
