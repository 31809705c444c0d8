#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/models/canine/canine.h"
#include "longbow/tasks/task.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

const char* const kSmall =
    "{width: 8, heads: 2, layers: 1, hashes: 2, buckets: 32, rate: 2, max_length: 0}";

DataConfig tiny_recall() {
  DataConfig data = {.name = "recall"};
  data.options = parse_yaml(
      "{train: 12, valid: 4, test: 4, keys: 6, values: 3, pairs: 4, queries: 3}", "options");
  return data;
}

DataConfig tiny_listops() {
  DataConfig data = {.name = "listops"};
  data.options =
      parse_yaml("{train: 20, valid: 4, test: 4, min_length: 3, max_length: 20}", "options");
  return data;
}

std::unique_ptr<Task> made(const DataConfig& data) {
  return find_objective("characters")
      .make(load_data(data), parse_yaml(kSmall, "model"), {.bucket = 4});
}

TEST(Characters, CountsWhatIsClassified) {
  for (const auto& data : {tiny_recall(), tiny_listops()}) {
    const auto task = made(data);
    task->model().eval();
    Plan plan = {.indices = {0, 1, 2}, .padded_length = task->splits().max_length};
    const auto batch = collate(*task->splits().train, plan);
    const auto outcome = task->run(batch, Random::from_seed(1));
    EXPECT_EQ(outcome.sums.at("count").item<int64_t>(), data.name == "recall" ? 9 : 3);
    EXPECT_GT(outcome.loss.item<double>(), 0);
    const auto metrics = task->metrics(outcome.sums);
    EXPECT_EQ(metrics.at(0).name, "accuracy");
    EXPECT_NEAR(metrics.at(1).value,
                outcome.loss.item<double>() / outcome.sums.at("weight").item<double>(), 1e-6);
  }
}

// The loss of a text is that of the text alone: padding in a batch does not count.
TEST(Characters, LossesOfABatchAddUp) {
  const auto task = made(tiny_listops());
  task->model().eval();
  double sum = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const Plan one = {.indices = {i}, .padded_length = task->splits().train->length(i)};
    sum += task->run(collate(*task->splits().train, one), {}).loss.item<double>();
  }
  const Plan all = {.indices = {0, 1, 2}, .padded_length = 20};
  EXPECT_NEAR(task->run(collate(*task->splits().train, all), {}).loss.item<double>(), sum, 1e-4);
}

TEST(Characters, EveryOptionIsSpelledOut) {
  const auto task = made(tiny_listops());
  const auto config = task->model_config();
  EXPECT_EQ(as_integer(*config.find("max_length"), "max_length") % 4, 0);
  EXPECT_EQ(config.find("first")->find("window")->text, "128");
  EXPECT_EQ(config.find("last")->find("name")->text, "softmax");
  EXPECT_EQ(config.find("molecules")->text, "aligned");
  EXPECT_EQ(written(read<CanineConfig>(config, "model")), config);
  EXPECT_EQ(task->model_card().find("model_type")->text, "longbow_canine");
}

TEST(Characters, AWrongModelIsRefusedBeforeDataIsOpened) {
  EXPECT_EQ(
      error_of([] { find_objective("characters").check(parse_yaml("{hashes: 7}", "run.yaml")); }),
      "run.yaml:1: model.width 768 is not a multiple of model.hashes 7; change one of them");
}

}  // namespace
}  // namespace longbow
