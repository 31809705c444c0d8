#include "longbow/train/run/start_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "longbow/train/run/stored_model.h"

namespace longbow {

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

Inheritance starting_weights(const StartConfig& start, const std::string& objective) {
  if (start.from.empty()) return {};
  check_stored_model(start.from, {});
  const auto stored = stored_model(start.from);
  if (start.vocabulary && *start.vocabulary != stored.vocabulary)
    throw UserError(fmt::format("start.vocabulary is {}, but that of {} is {}", *start.vocabulary,
                                start.from, stored.vocabulary),
                    "leave it out");
  return {stored_weights(start.from),
          {.source = start.from,
           .everything = stored.objective.empty() || stored.objective == objective,
           .tile = start.positions == NewPositions::tile}};
}

}  // namespace longbow
