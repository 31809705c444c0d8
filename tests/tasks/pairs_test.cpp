#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/models/heads/pair.h"
#include "tests/support/tensor.h"
#include "tests/tasks/samples.h"

namespace longbow {
namespace {

const std::vector<Sample> kPairs = {
    {.tokens = {1, 2, 3}, .targets = {2}, .second = {4, 5}},
    {.tokens = {6}, .targets = {0}, .second = {7, 8, 9, 1}},
    {.tokens = {2, 2}, .targets = {0}, .second = {3}},
};

TEST(Pairs, SumsCrossEntropyAndHitsOfOneClassAPair) {
  const auto task = made("pairs", splits_of(kPairs, 3), "{width: 8, layers: 1, init: xavier}");
  task->model().eval();
  const auto batch = batch_of(*task, 4);
  Context context;
  const auto logits = dynamic_cast<PairClassifier&>(task->model())(
      {batch.tokens, batch.lengths}, {batch.second, batch.second_lengths}, context);
  double loss = 0;
  int64_t hits = 0;
  for (int64_t row = 0; row < 3; ++row) {
    const auto target = kPairs[static_cast<size_t>(row)].targets[0];
    loss += std::log(logits[row].exp().sum().item<double>()) - logits[row][target].item<double>();
    hits += logits[row].argmax().item<int64_t>() == target;
  }
  const auto got = task->run(batch, {});
  EXPECT_NEAR(got.loss.item<double>(), loss, 1e-5);
  EXPECT_EQ(value_of(got, "correct"), hits);
  EXPECT_EQ(value_of(got, "weight"), 3);
  const auto metrics = task->metrics(got.sums);
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_EQ(metrics[0].name, "accuracy");
  EXPECT_EQ(metrics[1].name, "macro_f1");
  EXPECT_NEAR(metrics[2].value, loss / 3, 1e-5);
}

TEST(Pairs, ItsResolvedConfigMakesTheSameModel) {
  for (const auto* pairs : {"towers", "joint"}) {
    const auto task = made("pairs", splits_of(kPairs, 3),
                           "{width: 8, layers: 1, features: [distance], metric: macro_f1, pairs: " +
                               std::string(pairs) + "}");
    const auto config = task->model_config();
    EXPECT_EQ(config.find("pairs")->text, pairs);
    EXPECT_EQ(config.find("metric")->text, "macro_f1");
    EXPECT_EQ(config.find("max_length")->text, pairs == std::string("towers") ? "4" : "6");
    const auto again = find_objective("pairs").make(splits_of(kPairs, 3), config, {});
    EXPECT_EQ(to_yaml(again->model_config()), to_yaml(config));
    EXPECT_EQ(again->parameter_count(), task->parameter_count());
    EXPECT_EQ(as_integer(*task->model_card().find("classes"), "classes"), 3);
  }
}

TEST(Pairs, WantsPairsWithAClass) {
  const auto mistake = [](const Sample& sample, int64_t classes) {
    return error_of([&] { made("pairs", splits_of({sample}, classes), "{width: 8}"); });
  };
  const Sample single = {.tokens = {1}, .targets = {0}},
               similar = {.tokens = {1}, .second = {2}, .values = {0.5F}},
               asked = {.tokens = {1}, .targets = {0, 1}, .second = {2, 3}};
  for (const auto& [sample, classes] : {std::pair(single, 2), {similar, 0}, {asked, 0}})
    EXPECT_EQ(mistake(sample, classes),
              "objective pairs: the samples are not pairs of sequences with a class; leave "
              "objective out, to take what the data is made for");
}

}  // namespace
}  // namespace longbow
