#include "longbow/predict/trained_model.h"

#include <filesystem>

#include "longbow/core/run_folder.h"
#include "longbow/data/samples/saved_facts.h"
#include "longbow/predict/predictions.h"
#include "longbow/predict/writing.h"

namespace longbow {
namespace {

Prediction prediction_of(Node all) {
  Prediction prediction;
  const auto *number = all.find("class"), *name = all.find("label");
  if (number) prediction.label = name ? name->text : number->text;
  if (const auto* sure = all.find("probability"))
    prediction.probability = as_number(*sure, "probability");
  prediction.all = std::move(all);
  return prediction;
}

// What was kept of the data, or the data itself where nothing was.
DataFacts facts_in(const RunFolder& files, const RunConfig& config, const Node& tree) {
  if (std::filesystem::exists(files.vocabulary())) return load_facts(files);
  check_data_path(tree);
  return facts_of(load_splits(config));
}

}  // namespace

TrainedModel::TrainedModel(FinishedRun run, DataFacts facts, std::string folder)
    : run_(std::move(run)), facts_(std::move(facts)), folder_(std::move(folder)) {
  task().model().eval();
}

std::vector<Prediction> TrainedModel::predict(const std::vector<std::string>& texts) {
  check_command("predict");
  std::vector<predict::Line> lines;
  for (const auto& text : texts)
    lines.push_back({text, {"text", static_cast<int>(lines.size()) + 1}});
  std::vector<Prediction> all;
  for (auto& said : predict::predictions_of(task(), lines, config().train.sampler))
    all.push_back(prediction_of(std::move(said)));
  return all;
}

std::string TrainedModel::generate(const std::string& prompt, uint64_t seed) {
  check_command("generate");
  const auto prompts = predict::prompts_of(task(), {{prompt, {"prompt", 0}}});
  return predict::continued(task(), prompts, task().decoding(), 1, seed)[0].at(0).text;
}

std::string TrainedModel::translate(const std::string& source, uint64_t seed) {
  check_command("translate");
  const auto& how = task().decoding();
  predict::check_translation_room(task(), how, {});
  return predict::translated(task(), {{source, {"source", 0}}}, config().train.sampler, how, 1,
                             seed)[0]
      .at(0)
      .text;
}

void TrainedModel::check_command(const std::string& command) const {
  longbow::check_command(config().objective, command, folder_);
}

TrainedModel open_model(const std::string& folder, at::Device device) {
  const RunFolder files(folder);
  files.check_run();
  files.check_weights();
  const auto tree = load_config(files.config());
  auto config = read_model_config(tree);
  auto facts = facts_in(files, config, tree);
  auto run = open_run(files, std::move(config), facts.splits, device);
  return {std::move(run), std::move(facts), folder};
}

void check_command(const std::string& objective, const std::string& command,
                   const std::string& folder) {
  const auto& own = find_objective(objective);
  if (own.command == command) return;
  std::string able;
  for (const auto& other : objectives())
    if (other.command == command) able += (able.empty() ? "" : ", ") + other.name;
  throw UserError(Place{folder, 0},
                  "is a run of " + own.name + "; " + command + " needs one of " + able,
                  "ask this one with `longbow " + own.command + "`");
}

}  // namespace longbow
