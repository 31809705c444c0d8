#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/models/heads/classifier.h"
#include "tests/support/tensor.h"
#include "tests/tasks/samples.h"

namespace longbow {
namespace {

// Tags O, place, person; two tokens have none.
const std::vector<Sample> kTagged = {
    {.tokens = {1, 2, 3}, .targets = {0, 1, kIgnore}},
    {.tokens = {4, 5}, .targets = {2, 0}},
    {.tokens = {6, 7, 8, 9}, .targets = {kIgnore, 1, 0, 0}},
};

Splits tagged(std::vector<std::string> labels = {"O", "place", "person"}) {
  Splits splits = {.vocabulary = 10, .classes = 3};
  splits.labels = std::move(labels);
  const auto list = std::make_shared<SampleList>(kTagged, /*per_token=*/true);
  set_splits(splits, list, list, list);
  return splits;
}

// The tags that the model finds most likely, of real tokens only.
std::vector<std::vector<int64_t>> guesses(Task& task, const Batch& batch) {
  Context context = {.mask = Mask::from_lengths(batch.lengths, batch.tokens.size(1))};
  const auto best = dynamic_cast<Classifier&>(task.model())(batch.tokens, context).argmax(-1);
  std::vector<std::vector<int64_t>> rows;
  for (size_t row = 0; row < kTagged.size(); ++row)
    for (size_t at = 0; at < kTagged[row].tokens.size(); ++at) {
      if (at == 0) rows.emplace_back();
      rows.back().push_back(
          best[static_cast<int64_t>(row)][static_cast<int64_t>(at)].item<int64_t>());
    }
  return rows;
}

double metric(const Task& task, const Tensors& sums, const std::string& name) {
  for (const auto& one : task.metrics(sums))
    if (one.name == name) return one.value;
  ADD_FAILURE() << "no metric " << name;
  return -1;
}

const char* const kModel = "{width: 8, heads: 2, layers: 1, init: xavier}";

TEST(Tagging, CountsTokensThatHaveATag) {
  const auto task = made("tagging", tagged(), kModel);
  task->model().eval();
  const auto batch = batch_of(*task, 4);
  const auto sums = task->run(batch, {}).sums;
  const auto rows = guesses(*task, batch);
  double right = 0, hits = 0, named = 0;
  for (size_t row = 0; row < kTagged.size(); ++row)
    for (size_t at = 0; at < kTagged[row].targets.size(); ++at) {
      const auto wanted = kTagged[row].targets[at];
      if (wanted == kIgnore) continue;
      const auto guess = rows[row][at];
      right += guess == wanted;
      hits += guess == wanted && wanted != 0;
      named += (guess != 0) + (wanted != 0);
    }
  EXPECT_EQ(value_of({.loss = {}, .sums = sums}, "count"), 7);
  EXPECT_NEAR(metric(*task, sums, "accuracy"), right / 7, 1e-12);
  EXPECT_NEAR(metric(*task, sums, "micro_f1"), 2 * hits / named, 1e-12) << "O is not counted";
}

TEST(Tagging, WithoutATagForNothingMicroF1IsAccuracy) {
  const auto task = made("tagging", tagged({"a", "b", "c"}), kModel);
  task->model().eval();
  const auto sums = task->run(batch_of(*task, 4), {}).sums;
  EXPECT_NEAR(metric(*task, sums, "micro_f1"), metric(*task, sums, "accuracy"), 1e-12);
}

TEST(Tagging, ChoosesTheWeightsByTheMetricThatIsAskedFor) {
  for (const std::string name : {"accuracy", "micro_f1"}) {
    const auto task = made("tagging", tagged(), "{width: 8, metric: " + name + "}");
    task->model().eval();
    EXPECT_EQ(task->metrics(task->run(batch_of(*task, 4), {}).sums).front().name, name);
    EXPECT_EQ(task->model_config().find("metric")->text, name);
  }
}

TEST(Tagging, SaysATagForEachToken) {
  const auto task = made("tagging", tagged(), kModel);
  task->model().eval();
  const auto batch = batch_of(*task, 4);
  const auto rows = guesses(*task, batch);
  const auto said = task->predict(batch, {});
  ASSERT_EQ(said.size(), 3u);
  const std::vector<std::string> names = {"O", "place", "person"};
  for (size_t row = 0; row < 3; ++row) {
    const auto& tags = said[row].find("tags")->items;
    ASSERT_EQ(tags.size(), kTagged[row].tokens.size());
    for (size_t at = 0; at < tags.size(); ++at)
      EXPECT_EQ(tags[at].text, names[static_cast<size_t>(rows[row][at])]);
    EXPECT_EQ(said[row].find("probabilities")->items.size(), tags.size());
  }
  EXPECT_EQ(to_json(*said[0].find("target")), R"(["O","place",null])");
}

TEST(Tagging, NumbersTagsThatHaveNoNames) {
  const auto task = made("tagging", tagged({}), kModel);
  const auto said = task->predict(batch_of(*task, 4), {});
  EXPECT_EQ(to_json(*said[1].find("target")), "[2,0]");
  EXPECT_EQ(said[1].find("tags")->items.size(), 2u);
}

TEST(Tagging, ItsResolvedConfigMakesTheSameModel) {
  const auto task = made("tagging", tagged(), "{width: 8, layers: 1, head: 4, outside: none}");
  const auto config = task->model_config();
  const auto again = find_objective("tagging").make(tagged(), config, {});
  EXPECT_EQ(to_yaml(again->model_config()), to_yaml(config));
  EXPECT_EQ(again->parameter_count(), task->parameter_count());
  EXPECT_EQ(to_json(*task->model_card().find("id2label")), R"({"0":"O","1":"place","2":"person"})");
}

TEST(Tagging, WantsATagForEachToken) {
  EXPECT_EQ(error_of([] {
              made("tagging", splits_of({{.tokens = {1, 2}, .targets = {0}}}, 2), "{width: 8}");
            }),
            "objective tagging: the samples do not have a tag for each token; leave objective out, "
            "to take what the data is made for");
}

TEST(Tagging, HasTheMostFrequentTagAsItsBaseline) {
  const auto rows = find_objective("tagging").baselines(tagged());
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].score, 4.0 / 7) << "always O";
}

}  // namespace
}  // namespace longbow
