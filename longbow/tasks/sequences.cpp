#include "longbow/tasks/sequences.h"

#include <ATen/ATen.h>

#include "longbow/data/samples/framed.h"
#include "longbow/data/samples/joined.h"

namespace longbow {

void check_sequences(const SequencesConfig& config, const Node& tree) {
  check_classifier(config, tree);
  check_one_row(config, tree);
  if (config.features.empty())
    throw UserError(tree.place_of("features"), "model.features is empty",
                    "write some of concat, product, difference, distance");
}

Splits arranged(const Splits& splits, const SequencesConfig& config) {
  if (!splits.train->has_second()) return framed(splits);
  if (splits.second_vocabulary != 0 && splits.second_vocabulary != splits.vocabulary)
    throw UserError("the sequences of a pair have different vocabularies",
                    "one encoder reads both; choose another objective");
  return config.pairs == Arrangement::joint ? joined(splits, Answers::classes) : framed(splits);
}

Sequences::Sequences(const Splits& splits, const SequencesConfig& config, int64_t outputs,
                     uint64_t seed) {
  if (splits.train->has_second())
    towers_ = std::make_shared<PairClassifier>(config, splits.vocabulary, outputs, seed);
  else
    classifier_ = std::make_shared<Classifier>(config, splits.vocabulary, outputs, seed);
}

std::shared_ptr<Part> Sequences::model() const {
  if (towers_) return towers_;
  return classifier_;
}

Tensor Sequences::operator()(const Batch& batch, Context& context) const {
  if (!towers_) return (*classifier_)(batch.tokens, context);
  if (!batch.padded) return (*towers_)({batch.tokens, {}}, {batch.second, {}}, context);
  return (*towers_)({batch.tokens, batch.lengths}, {batch.second, batch.second_lengths}, context);
}

}  // namespace longbow
