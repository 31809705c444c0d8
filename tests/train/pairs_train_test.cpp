// Every model of pairs, values and spans, with an exact, a linear, a low-rank and a windowed
// mechanism, learns its generated task.
#include <gtest/gtest.h>

#include "longbow/train/trainer.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

struct Lesson {
  std::string name, task, data, model;
  int64_t steps;
  double loss;   // to reach on the test split
  double score;  // of the first metric, at least
};

// Without a mechanism that mixes tokens, spans get to a loss of 0.74 and 42 % exact matches.
const Lesson kLessons[] = {
    {"towers", "match", "{topics: 3, words: 4, length: 12}", "{head: 32}", 150, 0.02, 0.98},
    {"joint", "match", "{topics: 3, words: 4, length: 12}", "{head: 32, pairs: joint}", 200, 0.05,
     0.97},
    {"value", "count", "{words: 4, length: 12, length_min: 8}", "{}", 150, 0.001, 0.99},
    {"value_of_towers", "count", "{words: 4, length: 12, length_min: 8, pairs: true}",
     "{head: 32, range: [0, 1]}", 300, 0.003, 0.97},
    {"value_of_joint", "count", "{words: 4, length: 6, pairs: true}", "{head: 32, pairs: joint}",
     800, 0.003, 0.97},
    {"span", "needle", "{words: 8, answers: 4, length: 12, width: 2}", "{}", 300, 0.1, 0.97},
};

struct Means {
  std::string name, attention;
};
const Means kMechanisms[] = {{"softmax", "softmax"},
                             {"linear", "linear"},
                             {"linformer", "{name: linformer, rank: 8}"},
                             {"local", "{name: local, window: 4}"}};

using Case = std::tuple<Lesson, Means>;
std::string name_of(const Case& row) {
  return std::get<0>(row).name + "_" + std::get<1>(row).name;
}
void PrintTo(const Lesson& lesson, std::ostream* out) {
  *out << lesson.name;
}
void PrintTo(const Means& means, std::ostream* out) {
  *out << means.name;
}

RunConfig config_of(const Lesson& lesson, const std::string& attention) {
  auto tree = parse_yaml("task: " + lesson.task, "run");
  tree["data"][lesson.task] = parse_yaml(lesson.data, "data");
  for (const auto* set : {"train=2000", "valid=100", "test=200"})
    assign(tree, "data." + lesson.task + "." + set);
  tree["model"] = parse_yaml(lesson.model, "model");
  for (const auto* set : {"width=32", "layers=1", "init=xavier"})
    assign(tree, std::string("model.") + set);
  tree["model"]["attention"] = parse_yaml(attention, "attention");
  for (const auto* set : {"bucket=4", "threads=0", "learning_rate=0.003"})
    assign(tree, std::string("train.") + set);
  auto config = read_run_config(tree);
  config.train.max_steps = lesson.steps;
  return config;
}

struct PairsTrain : testing::TestWithParam<Case> {};

TEST_P(PairsTrain, ReachesTheStatedLoss) {
  const auto& [lesson, means] = GetParam();
  const auto config = config_of(lesson, means.attention);
  const auto folder = scratch();
  const auto result = train(config, {.out = folder, .progress = ProgressStyle::off});
  const auto run = open_run(folder, at::kCPU);
  const auto found = evaluate(*run.task, *run.task->splits().test, config.train.sampler);
  EXPECT_EQ(found.metrics.back().name, "loss");
  EXPECT_LT(found.metrics.back().value, lesson.loss);
  EXPECT_GT(result.score, lesson.score) << result.metric;
}

INSTANTIATE_TEST_SUITE_P(All, PairsTrain,
                         testing::Combine(testing::ValuesIn(kLessons),
                                          testing::ValuesIn(kMechanisms)),
                         [](const auto& row) { return name_of(row.param); });

}  // namespace
}  // namespace longbow
