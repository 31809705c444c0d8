#include "longbow/models/heads/classifier.h"
#include "longbow/tasks/objectives.h"
#include "longbow/tasks/prediction.h"
#include "longbow/tasks/scores.h"

namespace longbow {
namespace {

struct ClassificationConfig : ClassifierConfig {
  ClassMetric metric = ClassMetric::accuracy;
};
template <class V>
void fields(V& v, ClassificationConfig& c) {
  fields(v, static_cast<ClassifierConfig&>(c));
  v("metric", c.metric, "of the validation split, what the best weights are chosen by");
}

class Classification : public TaskOf<ClassificationConfig, Classifier> {
 public:
  Classification(const Splits& splits, const Config& config, const TaskOptions& options)
      : TaskOf(splits, config, options) {
    if (splits_.per_token) config_.pooling = Pooling::none;
    model_ =
        std::make_shared<Classifier>(config_, splits_.vocabulary, splits_.classes, options.seed);
  }

  static void check(const Config& config, const Node& tree) { check_classifier(config, tree); }
  static void check_data(const Splits& splits, const Config& config, const Node& tree) {
    check_classes(splits, "classification");
    if (!splits.per_token) check_one_row(config, tree);
  }
  std::vector<Metric> metrics(const Tensors& sums) const override {
    return class_metrics(sums, config_.metric);
  }
  Node model_card() const override {
    return card("longbow_classifier",
                {{"vocabulary", splits_.vocabulary}, {"classes", splits_.classes}}, splits_.labels);
  }
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    return class_predictions((*model_)(batch.tokens, context), batch, splits_.labels);
  }

 private:
  Outcome outcome(const Batch& batch, Context& context) override {
    return tallied_loss((*model_)(batch.tokens, context), batch, options_, model_->is_training());
  }
};

}  // namespace

Objective classification_objective() {
  return objective_of<Classification>({.name = "classification",
                                       .description = "one class a sequence, or one a marked token",
                                       .baselines = class_baselines,
                                       .bert = BertHead::classes});
}

}  // namespace longbow
