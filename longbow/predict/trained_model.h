#pragma once
// A trained model to be asked:
//
//   auto model = longbow::open_model("runs/topic");
//   for (const auto& said : model.predict({"a b c", "d e"}))
//     std::cout << said.label << " " << said.probability << "\n";
//
// Everything it needs is in the folder of its run. A text is what the data of the run calls its
// symbols, with blanks between them. A mistake in one is a UserError.
#include "longbow/data/samples/facts.h"
#include "longbow/predict/inputs.h"
#include "longbow/train/run/finished_run.h"

namespace longbow {

struct Prediction {
  std::string label = {};  // of the most probable class: its name, or its number without one
  double probability = 0;
  Node all = {};  // everything that the objective predicts, as `longbow predict --json` shows it
};

class TrainedModel {
 public:
  TrainedModel(FinishedRun run, DataFacts facts, std::string folder);

  // Of the objectives that have one class for a text; of the others only `all` is filled in.
  std::vector<Prediction> predict(const std::vector<std::string>& texts);
  // What follows the prompt, decoded as the run's config says; of plain text, with the blank that
  // stands between the two.
  std::string generate(const std::string& prompt, uint64_t seed = 1);
  std::string translate(const std::string& source, uint64_t seed = 1);

  const RunConfig& config() const { return run_.config; }
  Task& task() const { return *run_.task; }  // in evaluation mode
  const DataFacts& facts() const { return facts_; }
  const std::string& folder() const { return folder_; }

  // UserError when the objective answers to another of predict, generate, translate.
  void check_command(const std::string& command) const;

 private:
  FinishedRun run_;
  DataFacts facts_;
  std::string folder_;
};

// The model of a finished run, from the folder alone. Runs of longbow 0.1.0, which kept no
// vocabulary.json, need their data. UserError when the folder holds no finished run.
TrainedModel open_model(const std::string& folder, at::Device device = at::kCPU);

// UserError when a run of this objective, in `folder`, answers to another command.
void check_command(const std::string& objective, const std::string& command,
                   const std::string& folder);

}  // namespace longbow
