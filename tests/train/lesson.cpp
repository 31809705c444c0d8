#include "tests/train/lesson.h"
#include "longbow/data/sets/markov.h"

#include <cmath>
#include <map>

#include "tests/train/runs.h"

namespace longbow {
namespace {

const Means kMeans[] = {
    {"softmax"}, {"linear"}, {"linformer"}, {"local", false}, {"none", false, false}};

std::string mechanism(const Lesson& lesson, const Means& means) {
  std::string options;
  if (means.name == "linformer") options = ", rank: " + std::to_string(lesson.rank);
  if (means.name == "local") options = ", window: " + std::to_string(lesson.window);
  return "{name: " + means.name + options + "}";
}

// Tokens that a guess starts from, how often each target came with them, and the values that did.
struct Cell {
  std::map<int64_t, double> targets;
  double count = 0, sum = 0, squares = 0;
};

Outlook counted(const Dataset& data) {
  std::map<std::vector<int32_t>, Cell> cells;
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto sample = data.get(i);
    std::vector<int32_t> key = {sample.tokens.front()};
    if (!sample.second.empty()) key.push_back(sample.second.front());
    auto& cell = cells[key];
    ++cell.count;
    for (const auto target : sample.targets) ++cell.targets[target];
    for (const double value : sample.values) {
      cell.sum += value;
      cell.squares += value * value;
    }
  }
  double loss = 0;
  for (const auto& [key, cell] : cells) {
    for (const auto& [target, count] : cell.targets) loss -= count * std::log(count / cell.count);
    loss += cell.squares - cell.sum * cell.sum / cell.count;
  }
  return {.blind = loss / static_cast<double>(data.size())};
}

}  // namespace

std::string test_name(const testing::TestParamInfo<LessonCase>& info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
}

std::vector<LessonCase> by_every_mechanism(const std::vector<Lesson>& lessons) {
  std::vector<LessonCase> cases;
  for (const auto& lesson : lessons)
    for (const auto& means : kMeans) cases.emplace_back(lesson, means);
  return cases;
}

RunConfig config_of(const Lesson& lesson, const Means& means) {
  auto tree = parse_yaml("{task: " + lesson.task + ", train: " + lesson.train + "}", "run");
  if (!lesson.objective.empty()) tree["objective"] = Node::string(lesson.objective);
  tree["data"][lesson.task] = parse_yaml(lesson.data, "data");
  tree["model"] = parse_yaml(lesson.model, "model");
  for (const auto& place : lesson.places)
    assign(tree, "model." + place + "=" + mechanism(lesson, means));
  for (const auto& place : lesson.cross_places)
    assign(tree, "model." + place + "=" + (means.cross ? mechanism(lesson, means) : "softmax"));
  for (const auto* set : {"threads=0", "warmup_steps=20", "events=false"})
    assign(tree, std::string("train.") + set);
  return read_run_config(tree);
}

nlohmann::json expect_learnt(const Lesson& lesson, const Means& means) {
  const auto config = config_of(lesson, means);
  const auto folder = scratch();
  run(config, folder);
  const auto test = metrics(folder, "test").at(0);
  const auto finished = open_run(folder, at::kCPU);
  const auto& splits = finished.task->splits();  // pairs may have become one sequence
  EXPECT_LT(lesson.rank, splits.max_length);
  EXPECT_LT(2 * lesson.window, splits.max_length) << "the window shows everything";
  const auto outlook = lesson.outlook(config, splits, test);
  const auto loss = test.at(lesson.loss_name).get<double>();
  testing::Test::RecordProperty("loss", std::to_string(loss));
  testing::Test::RecordProperty("blind", std::to_string(outlook.blind));
  EXPECT_LT(lesson.loss, outlook.blind) << "a loss that asks for nothing";
  EXPECT_GT(lesson.loss, outlook.least) << "a loss that nobody reaches";
  EXPECT_GT(loss, outlook.least - 0.05) << "nobody can";
  if (means.mixes)
    EXPECT_LT(loss, lesson.loss);
  else
    EXPECT_GT(loss, lesson.loss) << "learnt without seeing another token";
  return test;
}

Outlook given_first_tokens(const RunConfig&, const Splits& splits, const nlohmann::json&) {
  return counted(*splits.train);
}

Outlook given_last_word(const RunConfig& config, const Splits&, const nlohmann::json&) {
  const auto words = read<MarkovConfig>(config.data.options);
  const auto entropy = markov_entropy(MarkovChain(words, config.data.seed));
  return {.blind = entropy.given_one, .least = entropy.loss(words.length)};
}

}  // namespace longbow
