#include "longbow/tasks/prediction.h"
#include "longbow/tasks/scores.h"
#include "longbow/tasks/sequences.h"

namespace longbow {
namespace {

struct PairsConfig : SequencesConfig {
  ClassMetric metric = ClassMetric::accuracy;
};
template <class V>
void fields(V& v, PairsConfig& c) {
  fields(v, static_cast<SequencesConfig&>(c));
  v("metric", c.metric, "of the validation split, what the best weights are chosen by");
}

class Pairs : public SequencesTask<PairsConfig> {
 public:
  Pairs(const Splits& splits, const Config& config, const TaskOptions& options)
      : SequencesTask(splits, config, splits.classes, options) {}
  static void check_data(const Splits& splits, const Config&, const Node&) {
    if (!splits.train->has_second() || splits.train->targets() != 1 || splits.classes == 0)
      throw UserError("objective pairs: the samples are not pairs of sequences with a class",
                      "leave objective out, to take what the data is made for");
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    return class_metrics(sums, config_.metric);
  }
  Node model_card() const override {
    return card("longbow_pair_classifier",
                {{"vocabulary", splits_.vocabulary}, {"classes", splits_.classes}}, splits_.labels);
  }
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    return class_predictions(sequences_(batch, context), batch, splits_.labels);
  }

 private:
  Outcome outcome(const Batch& batch, Context& context) override {
    return tallied_loss(sequences_(batch, context), batch, options_, model_->is_training());
  }
};

}  // namespace

Objective pairs_objective() {
  return objective_of<Pairs>({.name = "pairs",
                              .description = "one class a pair of sequences",
                              .baselines = class_baselines,
                              .bert = BertHead::pairs});
}

}  // namespace longbow
