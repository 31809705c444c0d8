#include "longbow/train/run/stored_model.h"

#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/core/run_folder.h"
#include "longbow/models/bert/bert_folder.h"
#include "longbow/tensors/safetensors.h"

namespace longbow {
namespace {

const Node& needed(const Node& tree, const char* key) {
  const auto* found = tree.find(key);
  if (!found) throw UserError(tree.place, std::string(key) + " is missing", "this is not a run");
  return *found;
}

}  // namespace

void check_stored_model(const std::string& folder, const Place& place) {
  if (!std::filesystem::is_directory(folder))
    throw UserError(place, "start.from '" + folder + "' is not a folder",
                    "name one that `longbow train` or `longbow import` wrote");
  if (const RunFolder run(folder); run.is_run()) run.check_weights();
}

StoredModel stored_model(const std::string& folder) {
  const RunFolder run(folder);
  if (!run.is_run()) {
    const auto bert = read_bert_config(folder);
    return {.model = written(encoder_of(bert)), .vocabulary = bert.vocabulary};
  }
  const auto tree = load_config(run.config());
  const auto card = parse_json(read_file(run.card()), run.card());
  const auto* vocabulary = card.find("vocabulary");
  return {.objective = as_string(needed(tree, "objective"), "objective"),
          .model = needed(tree, "model"),
          .vocabulary = vocabulary ? as_integer(*vocabulary, "vocabulary") : 0};
}

Tensors stored_weights(const std::string& folder) {
  const RunFolder run(folder);
  return run.is_run() ? load_safetensors(run.weights()).tensors : read_bert_weights(folder);
}

}  // namespace longbow
