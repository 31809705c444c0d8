#include "longbow/tasks/sequences.h"

#include <ATen/ATen.h>

#include "longbow/data/joined.h"

namespace longbow {

void check_sequences(const SequencesConfig& config, const Node& tree) {
  check_encoder(config.model.towers.encoder, tree);
  const auto place = [&](const char* key) {
    const auto* found = tree.find(key);
    return found ? found->place : tree.place;
  };
  if (config.model.towers.pooling == Pooling::none)
    throw UserError(place("pooling"), "model.pooling none gives a row for every token",
                    "a sample has one; write mean, first or max");
  if (config.model.features.empty())
    throw UserError(place("features"), "model.features is empty",
                    "write some of concat, product, difference, distance");
}

Sequences::Sequences(Splits& splits, const SequencesConfig& config, int64_t outputs,
                     const TaskOptions& options)
    : config_(config) {
  const bool pairs = splits.train->has_second();
  if (pairs && splits.second_vocabulary != 0 && splits.second_vocabulary != splits.vocabulary)
    throw UserError("the sequences of a pair have different vocabularies",
                    "one encoder reads both; choose another objective");
  if (pairs && config.pairs == Arrangement::joint) splits = joined(splits, Answers::classes);
  auto& towers = config_.model.towers;
  fit_length(towers.encoder.max_length, splits, options.bucket);
  if (pairs && config.pairs == Arrangement::towers) {
    towers_ =
        std::make_shared<PairClassifier>(config_.model, splits.vocabulary, outputs, options.seed);
    model_ = towers_.get();
  } else {
    classifier_ = std::make_shared<Classifier>(towers, splits.vocabulary, outputs, options.seed);
    model_ = classifier_.get();
  }
  model_->to(options.device);
}

Tensor Sequences::operator()(const Batch& batch, Context& context) const {
  if (!towers_) return (*classifier_)(batch.tokens, context);
  if (!batch.padded) return (*towers_)({batch.tokens, {}}, {batch.second, {}}, context);
  return (*towers_)({batch.tokens, batch.lengths}, {batch.second, batch.second_lengths}, context);
}

}  // namespace longbow
