#include "longbow/train/run/start_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "longbow/core/run_folder.h"
#include "longbow/data/samples/text_codec.h"
#include "longbow/train/run/stored_model.h"

namespace longbow {
namespace {

// A BERT's ids are those of its tokenizer. Data whose padding is not that tokenizer's id 0 has
// others, and each word would read the weights of its neighbour.
void check_ids(const StartConfig& start, const Splits& splits) {
  const bool is_bert = std::filesystem::is_directory(start.from) && !RunFolder(start.from).is_run();
  if (is_bert && splits.codec && splits.codec->shifted())
    throw UserError(
        "id 0 of the data's tokenizer is not [PAD], so the ids of the data are one "
        "higher than those of " +
            start.from,
        "texts can start from a BERT only where [PAD] is id 0");
}

}  // namespace

void fit_vocabulary(const StartConfig& start, Splits& splits) {
  const auto words = start.vocabulary.value_or(0);
  if (start.from.empty() || words == 0) return;
  check_ids(start, splits);
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
