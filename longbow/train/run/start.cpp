#include "longbow/train/run/start.h"

#include <fmt/format.h>

#include <algorithm>

#include "longbow/core/run_folder.h"
#include "longbow/models/encoder/encoder_config.h"
#include "longbow/tasks/task.h"
#include "longbow/train/run/config_path.h"
#include "longbow/train/run/encoder_part.h"
#include "longbow/train/run/stored_model.h"

namespace longbow {
namespace {

// The encoder of an encoder-decoder stands in a part of its own.
bool is_nested(const Objective& objective) {
  return std::any_of(objective.options.begin(), objective.options.end(),
                     [](const FieldDoc& doc) { return doc.name == "encoder.width"; });
}

Node defaults_from(const StoredModel& stored, const std::string& objective) {
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
void check_sizes(const Node& model, const StoredModel& stored, const std::string& folder) {
  const auto& tree = with_encoder(model);
  const auto ours = read<EncoderConfig>(encoder_part(tree), "model"),
             theirs = read<EncoderConfig>(encoder_part(with_encoder(stored.model)), "model");
  const auto check = [&](const char* key, int64_t own, int64_t given) {
    if (own == given) return;
    const auto* found = tree.find(key);
    throw UserError(found ? found->place : tree.place,
                    fmt::format("model.{} is {}, but that of {} is {}", key, own, folder, given),
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

void resolve_start(StartConfig& start, Node& model, const std::string& objective,
                   const Node& tree) {
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
    check_stored_model(start.from, place_of("from"));
    const auto stored = stored_model(start.from);
    model = merged(defaults_from(stored, objective), model);
    check_sizes(model, stored, start.from);
    start.vocabulary = stored.vocabulary;
  }
  const auto encoder = read<EncoderConfig>(encoder_part(with_encoder(model)), "model");
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
  if (!from || start->find("vocabulary") || !RunFolder(run).is_run()) return;
  const auto before = load_config(RunFolder(run).config());
  const auto* known = before.find("start");
  if (!known || !before.find("model")) return;
  const auto noted = read<StartConfig>(*known, "start");
  if (!noted.vocabulary || noted.from != absolute_path(as_string(*from, "start.from"), from->place))
    return;
  tree["start"]["vocabulary"] = Node::integer(*noted.vocabulary);
  const auto* model = tree.find("model");
  tree["model"] = merged(*before.find("model"), model ? *model : Node::map());
}

}  // namespace longbow
