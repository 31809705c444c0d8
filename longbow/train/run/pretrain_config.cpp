#include "longbow/train/run/pretrain_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "longbow/models/encoder/encoder_config.h"
#include "longbow/tasks/task.h"
#include "longbow/train/run/encoder_part.h"

namespace longbow {
namespace {

// Only the layers of an Encoder have names that begin with nothing; what CANINE and the Perceivers
// have in its place has other tensors.
bool has_encoder(const Objective& objective) {
  return std::any_of(objective.sites.begin(), objective.sites.end(),
                     [](const AttentionSite& site) { return site.path.empty(); });
}

template <class Wanted>
std::vector<std::string> objectives_that(Wanted wanted) {
  std::vector<std::string> names;
  for (const auto& row : objectives())
    if (wanted(row)) names.push_back(row.name);
  return names;
}

// Nearly every tensor of an encoder has its width.
void check_width(const Node& pretraining, const Node& model, const Node& tree) {
  const auto width_of = [](const Node& whole) {
    return read<EncoderConfig>(encoder_part(with_encoder(whole)), "model").width;
  };
  const auto given = width_of(pretraining), wanted = width_of(model);
  if (given != wanted)
    throw UserError(
        tree.place_of("pretrain.model.width"),
        fmt::format("pretrain.model.width is {}, but the encoder of the run has {}", given, wanted),
        "leave it out");
}

}  // namespace

Node pretraining_model(const PretrainConfig& config, const Node& model) {
  auto first = merged(encoder_part(with_encoder(model)), config.model);
  if (find_objective(config.objective).causal) first["causal"] = Node::boolean(true);
  return first;
}

void check_pretraining(const PretrainConfig& config, const std::string& objective,
                       const Node& model, const Node& tree) {
  const auto& name = config.objective;
  if (name.empty()) return;
  const auto pretrain = objectives_that([](const Objective& row) { return row.pretrains; });
  const auto place = tree.place_of("pretrain.objective");
  if (std::find(pretrain.begin(), pretrain.end(), name) == pretrain.end())
    throw UserError(place, fmt::format("'{}' does not pretrain", name), suggest(name, pretrain));
  if (!has_encoder(find_objective(objective)))
    throw UserError(place, fmt::format("{} has no encoder that {} could pretrain", objective, name),
                    fmt::format("leave pretrain out, or take another objective: {}",
                                fmt::join(objectives_that(has_encoder), ", ")));
  const auto first = pretraining_model(config, model);
  find_objective(name).check(first);
  check_width(first, model, tree);
}

}  // namespace longbow
