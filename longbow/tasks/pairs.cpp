#include "longbow/tasks/pairs.h"

#include <ATen/ATen.h>

#include "longbow/tasks/prediction.h"
#include "longbow/tasks/scores.h"
#include "longbow/tasks/sequences.h"

namespace longbow {
namespace {

struct PairsConfig {
  SequencesConfig sequences = {};
  ClassMetric metric = ClassMetric::accuracy;
};
template <class V>
void fields(V& v, PairsConfig& c) {
  fields(v, c.sequences);
  v("metric", c.metric, "of the validation split, what the best weights are chosen by");
}

class Pairs : public Task {
 public:
  Pairs(const Splits& splits, const PairsConfig& config, const TaskOptions& options)
      : Task(checked(splits), options),
        config_(config),
        sequences_(splits_, config.sequences, splits.classes, options) {}

  Part& model() override { return sequences_.model(); }

  Outcome run(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    const auto logits = sequences_(batch, context);
    const bool training = model().is_training();
    auto outcome = classified(logits, batch.targets, batch.samples, options_, training);
    if (!training) outcome.sums["tallies"] = class_tallies(logits, batch.targets);
    return with_extra_loss(std::move(outcome), context);
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    return class_metrics(sums, config_.metric);
  }

  Node model_config() const override {
    auto resolved = config_;
    resolved.sequences = sequences_.config();
    auto& attention = resolved.sequences.model.towers.encoder.attention;
    attention = resolved_attention(attention);
    return written(resolved);
  }
  Node model_card() const override {
    return Node::map({{"model_type", Node::string("longbow_pair_classifier")},
                      {"vocabulary", Node::integer(splits_.vocabulary)},
                      {"classes", Node::integer(splits_.classes)}});
  }

  Texts texts() const override {
    return {.read = symbols(),
            .longest = sequences_.config().model.towers.encoder.max_length,
            .pairs = has_pairs()};
  }
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    return class_predictions(sequences_(batch, context), batch);
  }

 private:
  static const Splits& checked(const Splits& splits) {
    if (!splits.train->has_second())
      throw UserError("objective pairs: the samples are not pairs of sequences",
                      "leave objective out, to take what the data is made for");
    return splits;
  }
  PairsConfig config_;
  Sequences sequences_;
};

}  // namespace

Objective pairs_objective() {
  return {.name = "pairs",
          .description = "one class a pair of sequences",
          .options = describe<PairsConfig>(),
          .check =
              [](const Node& model) {
                check_sequences(read<PairsConfig>(model, "model").sequences, model);
              },
          .make =
              [](const Splits& splits, const Node& model, const TaskOptions& options) {
                return std::make_unique<Pairs>(splits, read<PairsConfig>(model, "model"), options);
              }};
}

}  // namespace longbow
