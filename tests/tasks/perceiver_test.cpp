#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/tasks/task.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

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

std::unique_ptr<Task> made(const DataConfig& data, const std::string& more = "") {
  const auto model = "{width: 8, heads: 2, layers: 1, latents: 4" + more + "}";
  return find_objective("perceiver")
      .make(load_data(data), parse_yaml(model, "model"), {.bucket = 4});
}

TEST(PerceiverObjective, CountsWhatIsClassified) {
  for (const auto& data : {tiny_recall(), tiny_listops()}) {
    const auto task = made(data);
    task->model().eval();
    const Plan plan = {.indices = {0, 1, 2}, .padded_length = task->splits().max_length};
    const auto outcome = task->run(collate(*task->splits().train, plan), Random::from_seed(1));
    EXPECT_EQ(outcome.sums.at("count").item<int64_t>(), data.name == "recall" ? 9 : 3);
    const auto metrics = task->metrics(outcome.sums);
    EXPECT_EQ(metrics.at(0).name, "accuracy");
    EXPECT_EQ(metrics.at(1).name, "macro_f1");
    EXPECT_NEAR(metrics.at(2).value,
                outcome.loss.item<double>() / outcome.sums.at("weight").item<double>(), 1e-6);
  }
}

// The loss of a sequence is that of the sequence alone: padding in a batch does not count.
TEST(PerceiverObjective, LossesOfABatchAddUp) {
  const auto task = made(tiny_listops(), ", fourier: {bands: 3}");
  task->model().eval();
  double sum = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const Plan one = {.indices = {i}, .padded_length = task->splits().train->length(i)};
    sum += task->run(collate(*task->splits().train, one), {}).loss.item<double>();
  }
  const Plan all = {.indices = {0, 1, 2}, .padded_length = 20};
  EXPECT_NEAR(task->run(collate(*task->splits().train, all), {}).loss.item<double>(), sum, 1e-4);
}

TEST(PerceiverObjective, EveryOptionIsSpelledOut) {
  const auto task = made(tiny_listops(), ", metric: macro_f1");
  const auto config = task->model_config();
  EXPECT_EQ(as_integer(*config.find("max_length"), "max_length") % 4, 0);
  EXPECT_EQ(config.find("attention")->find("name")->text, "softmax");
  EXPECT_EQ(config.find("repeat_weights")->text, "first_apart");
  EXPECT_EQ(config.find("cross")->find("heads")->text, "1");
  EXPECT_EQ(config.find("output")->find("queries")->text, "tokens");
  const auto again =
      find_objective("perceiver").make(load_data(tiny_listops()), config, {.bucket = 4});
  EXPECT_EQ(again->model_config(), config);
  EXPECT_EQ(again->parameter_count(), task->parameter_count());
  EXPECT_EQ(task->metrics({{"tallies", at::ones({3, 10}, at::kDouble)}}).at(0).name, "macro_f1");
  EXPECT_EQ(task->model_card().find("model_type")->text, "longbow_perceiver");
}

TEST(PerceiverObjective, AWrongModelIsRefusedBeforeDataIsOpened) {
  EXPECT_EQ(error_of([] {
              find_objective("perceiver").check(parse_yaml("{repeats: 2, reads: 5}", "run.yaml"));
            }),
            "run.yaml:1: model.reads 5 is more than model.repeats; repeats is 2");
}

}  // namespace
}  // namespace longbow
