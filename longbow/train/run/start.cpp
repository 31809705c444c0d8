#include "longbow/train/run/start.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/models/bert/bert_folder.h"
#include "longbow/tensors/safetensors.h"
#include "longbow/train/run/checkpoint.h"
#include "longbow/train/run/export_run.h"
#include "longbow/train/run/trainer.h"

namespace fs = std::filesystem;

namespace longbow {
namespace {

std::string in(const std::string& folder, const char* name) {
  return (fs::path(folder) / name).string();
}

// What a folder says of its model.
struct Stored {
  std::string objective = {};  // of a run
  Node model = {};
  int64_t vocabulary = 0;  // 0: it has none
};

const Node& needed(const Node& tree, const char* key) {
  const auto* found = tree.find(key);
  if (!found) throw UserError(tree.place, std::string(key) + " is missing", "this is no run");
  return *found;
}

void check_folder(const std::string& folder, const Place& place) {
  if (!fs::is_directory(folder))
    throw UserError(place, "start.from '" + folder + "' is no folder",
                    "name one that `longbow train` or `longbow import` wrote");
  if (is_run(folder) && !fs::exists(in(folder, "model.safetensors")))
    throw UserError(Place{folder, 0}, "holds no finished run: model.safetensors is missing",
                    "finish it with `longbow train --resume`");
}

Stored stored_in(const std::string& folder) {
  if (!is_run(folder)) {
    const auto bert = read_bert_config(folder);
    return {.model = written(encoder_of(bert)), .vocabulary = bert.vocabulary};
  }
  const auto tree = load_config(in(folder, "config.yaml"));
  const auto file = in(folder, "config.json");
  const auto card = parse_json(read_file(file), file);
  const auto* vocabulary = card.find("vocabulary");
  return {.objective = as_string(needed(tree, "objective"), "objective"),
          .model = needed(tree, "model"),
          .vocabulary = vocabulary ? as_integer(*vocabulary, "vocabulary") : 0};
}

// The encoder of an encoder-decoder stands in a part of its own.
bool is_nested(const Objective& objective) {
  return std::any_of(objective.options.begin(), objective.options.end(),
                     [](const FieldDoc& doc) { return doc.name == "encoder.width"; });
}

const Node& with_encoder(const Node& model) {
  const auto* nested = model.find("encoder");
  return nested ? *nested : model;
}

Node defaults_from(const Stored& stored, const std::string& objective) {
  if (stored.objective == objective) return stored.model;
  auto encoder = encoder_part(with_encoder(stored.model));
  // A causal language model is one whatever its encoder has been.
  const auto& row = find_objective(objective);
  if (row.causal)
    std::erase_if(encoder.entries, [](const auto& entry) { return entry.first == "causal"; });
  if (!is_nested(row)) return encoder;
  return Node::map({{"encoder", encoder}});
}

// Sizes that every tensor has, and heads, which no tensor shows.
void check_sizes(const RunConfig& config, const Stored& stored) {
  const auto& tree = with_encoder(config.model);
  const auto ours = read<EncoderConfig>(encoder_part(tree), "model"),
             theirs = read<EncoderConfig>(encoder_part(with_encoder(stored.model)), "model");
  const auto check = [&](const char* key, int64_t own, int64_t given) {
    if (own == given) return;
    const auto* found = tree.find(key);
    throw UserError(
        found ? found->place : tree.place,
        fmt::format("model.{} is {}, but that of {} is {}", key, own, config.start.from, given),
        "leave it out");
  };
  const auto head = [](const EncoderConfig& c) {
    return c.head_width > 0 ? c.head_width : c.width / c.heads;
  };
  check("width", ours.width, theirs.width);
  check("embedding_width", ours.words(), theirs.words());
  check("heads", ours.heads, theirs.heads);
  check("head_width", head(ours), head(theirs));
}

}  // namespace

Node encoder_part(const Node& model) {
  Node part = Node::map();
  part.place = model.place;
  for (const auto& doc : describe<EncoderConfig>()) {
    const auto key = doc.name.substr(0, doc.name.find('.'));
    if (const auto* value = model.find(key)) part[key] = *value;
  }
  return part;
}

void resolve_start(RunConfig& config, const Node& tree) {
  auto& start = config.start;
  const auto* part = tree.find("start");
  const auto place_of = [&](const char* key) {
    const auto* found = part ? part->find(key) : nullptr;
    return found ? found->place : part ? part->place : tree.place;
  };
  const bool tiles = start.positions == NewPositions::tile;
  if (start.from.empty()) {
    if (start.freeze || tiles)
      throw UserError(place_of(tiles ? "positions" : "freeze"), "start.from is missing",
                      "it names the folder of the weights");
    return;
  }
  start.from = absolute_path(start.from, place_of("from"));
  if (!start.vocabulary) {
    check_folder(start.from, place_of("from"));
    const auto stored = stored_in(start.from);
    config.model = merged(defaults_from(stored, config.objective), config.model);
    check_sizes(config, stored);
    start.vocabulary = stored.vocabulary;
  }
  const auto encoder = read<EncoderConfig>(encoder_part(with_encoder(config.model)), "model");
  if (tiles && encoder.positions != Positions::learned)
    throw UserError(place_of("positions"), "only learned positions can be repeated",
                    "leave start.positions out");
  if (start.freeze.value_or(0) > encoder.layers)
    throw UserError(place_of("freeze"),
                    fmt::format("start.freeze is {}, but the encoder has {} layers", *start.freeze,
                                encoder.layers));
}

void recall_start(Node& tree, const std::string& run) {
  const auto* start = tree.find("start");
  const auto* from = start ? start->find("from") : nullptr;
  if (!from || start->find("vocabulary") || !fs::exists(in(run, "config.yaml"))) return;
  const auto before = load_config(in(run, "config.yaml"));
  const auto* known = before.find("start");
  if (!known || !before.find("model")) return;
  const auto noted = read<StartConfig>(*known, "start");
  if (!noted.vocabulary || noted.from != absolute_path(as_string(*from, "start.from"), from->place))
    return;
  tree["start"]["vocabulary"] = Node::integer(*noted.vocabulary);
  const auto* model = tree.find("model");
  tree["model"] = merged(*before.find("model"), model ? *model : Node::map());
}

void fit_vocabulary(const StartConfig& start, Splits& splits) {
  const auto words = start.vocabulary.value_or(0);
  if (start.from.empty() || words == 0) return;
  if (splits.vocabulary > words)
    throw UserError(fmt::format("the data has {} words, but the model of {} has {}",
                                splits.vocabulary, start.from, words),
                    "make the data with the tokenizer of that model");
  splits.vocabulary = words;
  if (!splits.symbols.empty()) splits.symbols.resize(static_cast<size_t>(words));
}

void freeze(const StartConfig& start, Part& model) {
  if (!start.freeze) return;
  std::vector<std::string> stays = {"encoder.embedding."};
  for (int64_t layer = 0; layer < *start.freeze; ++layer)
    stays.push_back(fmt::format("encoder.layers.{}.", layer));
  bool any = false;
  for (const auto& entry : model.named_parameters()) {
    const bool still = std::any_of(stays.begin(), stays.end(), [&](const std::string& prefix) {
      return entry.key().starts_with(prefix);
    });
    if (still) Tensor(entry.value()).set_requires_grad(false);
    any = any || still;
  }
  if (!any)
    throw UserError("start.freeze: the model has no encoder whose layers could stay as they are");
}

bool has_begun(const TrainOptions& options) {
  return fs::exists(fs::path(options.out) / "metrics.jsonl") &&
         (!options.resume || has_checkpoint(options.out));
}

Inheritance started(const RunConfig& config, const TrainOptions& options) {
  const auto& start = config.start;
  if (start.from.empty() || has_begun(options)) return {};
  check_folder(start.from, {});
  const auto stored = stored_in(start.from);
  if (start.vocabulary && *start.vocabulary != stored.vocabulary)
    throw UserError(fmt::format("start.vocabulary is {}, but that of {} is {}", *start.vocabulary,
                                start.from, stored.vocabulary),
                    "leave it out");
  const bool run = is_run(start.from);
  return {run ? load_safetensors(in(start.from, "model.safetensors")).tensors
              : read_bert_weights(start.from),
          {.source = start.from,
           .everything = !run || stored.objective == config.objective,
           .tile = start.positions == NewPositions::tile}};
}

}  // namespace longbow
