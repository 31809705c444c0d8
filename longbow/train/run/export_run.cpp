#include "longbow/train/run/export_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <vector>

#include "longbow/core/file.h"
#include "longbow/core/run_folder.h"
#include "longbow/models/bert/bert_folder.h"
#include "longbow/tasks/task.h"
#include "longbow/tensors/safetensors.h"
#include "longbow/train/run/encoder_part.h"

namespace longbow {
namespace {

// The folder that is no run at the start of a chain of runs; empty where there is none.
std::string origin_of(std::string folder) {
  while (!folder.empty() && RunFolder(folder).is_run()) {
    const auto tree = load_config(RunFolder(folder).config());
    const auto* start = tree.find("start");
    const auto* from = start ? start->find("from") : nullptr;
    const auto before = from ? from->text : "";
    folder = before == folder ? "" : before;
  }
  return folder;
}

BertHead head_of(const Node& objective, const std::string& folder) {
  const auto& row = find_objective(objective.text, objective.place);
  if (row.bert != BertHead::none) return row.bert;
  std::vector<std::string> others;
  for (const auto& other : objectives())
    if (other.bert != BertHead::none) others.push_back(other.name);
  throw UserError(Place{folder, 0}, "a model of " + row.name + " is none of Hugging Face's BERTs",
                  fmt::format("those of {} are", fmt::join(others, ", ")));
}

std::vector<std::string> labels_in(const Node& card) {
  std::vector<std::string> labels;
  if (const auto* found = card.find("id2label"))
    for (const auto& [number, label] : found->entries) labels.push_back(label.text);
  if (const auto* found = card.find("labels"))  // of longbow 0.1.0
    for (const auto& label : found->items) labels.push_back(label.text);
  return labels;
}

}  // namespace

void export_run(const std::string& folder, const std::string& out, int64_t shard_bytes) {
  const RunFolder run(folder);
  run.check_weights();
  const auto tree = load_config(run.config());
  const auto *objective = tree.find("objective"), *model = tree.find("model");
  if (!objective || !model)
    throw UserError(Place{run.config(), 0}, "objective or model is missing",
                    "`longbow train` writes both");
  const FineTunedBert bert = {.head = head_of(*objective, folder),
                              .encoder = read<EncoderConfig>(encoder_part(*model), "model"),
                              .model = *model,
                              .labels = labels_in(parse_json(read_file(run.card()), run.card())),
                              .weights = load_safetensors(run.weights()).tensors};
  const auto origin = origin_of(folder);
  const auto source = origin.empty() ? Node() : hugging_face_config(origin);
  save_hugging_face(to_hugging_face(bert, source, Place{folder, 0}), origin, out, shard_bytes);
}

}  // namespace longbow
