// The model of characters learns short expressions with an exact, a linear, a low-rank and a
// windowed mechanism in its deep stack, and hardly anything without one: the class is read off the
// first molecule, which only that stack tells of the others.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "longbow/core/file.h"
#include "longbow/train/trainer.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

struct Lesson {
  const char *name, *attention;
  double least, most;  // what the loss on the test split is between
};
void PrintTo(const Lesson& lesson, std::ostream* out) {
  *out << lesson.name;
}
const Lesson kLessons[] = {{"softmax", "softmax", 0, 1.2},
                           {"linear", "linear", 0, 1.2},
                           {"linformer", "{name: linformer, rank: 4}", 0, 1.2},
                           {"local", "{name: local, window: 4}", 0, 1.2},
                           {"none", "none", 1.6, 2.3}};

double test_loss(const std::string& folder) {
  std::istringstream lines(read_file(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (const auto row = nlohmann::json::parse(line); row.at("split") == "test")
      return row.at("loss").get<double>();
  return -1;
}

struct CanineTrain : testing::TestWithParam<Lesson> {};

TEST_P(CanineTrain, ReachesTheStatedLoss) {
  const auto& lesson = GetParam();
  RunConfig config = {.task = "listops", .objective = "characters"};
  config.data.name = "listops";
  config.data.listops = {.train = 3000, .valid = 100, .test = 200, .min_length = 3};
  config.data.listops.max_length = 8;
  config.data.listops.max_depth = 2;
  config.data.listops.max_args = 4;
  config.model = parse_yaml(
      "{width: 32, heads: 2, layers: 1, hashes: 4, buckets: 64, rate: 2, max_length: 0, "
      "first: {name: local, window: 2, back: 0, ahead: 0}, init: xavier, "
      "block: {norm_epsilon: 1e-5}, attention: " +
          std::string(lesson.attention) + "}",
      "model");
  config.train.sampler = {.batch_size = 64, .bucket = 4};
  config.train.loader.threads = 0;
  config.train.max_steps = 300;
  config.train.optimizer.learning_rate = 5e-3;
  config.train.schedule.warmup_steps = 20;
  const auto folder = scratch();
  train(config, {.out = folder, .progress = ProgressStyle::off});
  const auto loss = test_loss(folder);
  EXPECT_GT(loss, lesson.least);
  EXPECT_LT(loss, lesson.most);
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, CanineTrain, testing::ValuesIn(kLessons),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace longbow
