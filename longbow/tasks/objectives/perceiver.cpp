#include "longbow/models/perceiver/perceiver_classifier.h"
#include "longbow/tasks/objectives.h"
#include "longbow/tasks/prediction.h"
#include "longbow/tasks/scores.h"

namespace longbow {
namespace {

struct PerceiverTaskConfig : PerceiverClassifierConfig {
  ClassMetric metric = ClassMetric::accuracy;
};
template <class V>
void fields(V& v, PerceiverTaskConfig& c) {
  fields(v, static_cast<PerceiverClassifierConfig&>(c));
  v("metric", c.metric, "of the validation split, what the best weights are chosen by");
}

class PerceiverTask : public TaskOf<PerceiverTaskConfig, PerceiverClassifier> {
 public:
  PerceiverTask(const Splits& splits, const Config& config, const TaskOptions& options)
      : TaskOf(splits, config, options) {
    model_ = std::make_shared<PerceiverClassifier>(config_, splits_.vocabulary, splits_.classes,
                                                   splits_.per_token, options.seed);
  }
  static void check(const Config& config, const Node& tree) {
    check_perceiver_classifier(config, tree);
  }
  static void check_data(const Splits& splits, const Config&, const Node&) {
    check_classes(splits, "perceiver");
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    return class_metrics(sums, config_.metric);
  }
  Node model_card() const override {
    return card("longbow_perceiver",
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

Objective perceiver_objective() {
  return objective_of<PerceiverTask>(
      {.name = "perceiver",
       .description = "one class a sequence, or one a marked token, by a Perceiver",
       .sites = {{.name = "cross",
                  .path = "cross",
                  .key = "",
                  .choice = AttentionSite::Choice::fixed,
                  .queries = "latents"},
                 {.name = "latents", .path = "blocks", .reads = "latents"}},
       .baselines = class_baselines,
       .recipe = {"{task: listops, objective: perceiver, data: {listops: {train: 8000, valid: 500, "
                  "test: 1000, min_length: 20, max_length: 100, max_depth: 5}}, model: {latents: "
                  "32, repeats: 2, attention: softmax}}",
                  "37 % accuracy; the outermost operator alone tells 34 %"}});
}

}  // namespace longbow
