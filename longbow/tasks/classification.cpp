#include "longbow/tasks/classification.h"

#include <ATen/ATen.h>

#include "longbow/models/classifier.h"
#include "longbow/tasks/prediction.h"
#include "longbow/tasks/scores.h"

namespace longbow {
namespace {

struct ClassificationConfig {
  ClassifierConfig model = {};
  ClassMetric metric = ClassMetric::accuracy;
};
template <class V>
void fields(V& v, ClassificationConfig& c) {
  fields(v, c.model);
  v("metric", c.metric, "of the validation split, what the best weights are chosen by");
}

class Classification : public Task {
 public:
  Classification(const Splits& splits, const ClassificationConfig& config,
                 const TaskOptions& options)
      : Task(splits, options), config_(config) {
    fit_length(config_.model.encoder.max_length, splits_, options.bucket);
    if (splits_.per_token) config_.model.pooling = Pooling::none;
    model_ = std::make_shared<Classifier>(config_.model, splits_.vocabulary, splits_.classes,
                                          options.seed);
    model_->to(options.device);
  }

  Part& model() override { return *model_; }

  Outcome run(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    const auto logits = (*model_)(batch.tokens, context);
    const bool training = model_->is_training();
    auto outcome = classified(logits, batch.targets, batch.samples, options_, training);
    if (!training) outcome.sums["tallies"] = class_tallies(logits, batch.targets);
    return with_extra_loss(std::move(outcome), context);
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    return class_metrics(sums, config_.metric);
  }

  Node model_config() const override {
    auto resolved = config_;
    auto& attention = resolved.model.encoder.attention;
    attention = resolved_attention(attention);
    return written(resolved);
  }
  Node model_card() const override {
    return Node::map({{"model_type", Node::string("longbow_classifier")},
                      {"vocabulary", Node::integer(splits_.vocabulary)},
                      {"classes", Node::integer(splits_.classes)}});
  }

  Texts texts() const override {
    return {.read = symbols(), .longest = config_.model.encoder.max_length};
  }
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    return class_predictions((*model_)(batch.tokens, context), batch);
  }

 private:
  ClassificationConfig config_;
  std::shared_ptr<Classifier> model_;
};

}  // namespace

Objective classification_objective() {
  return {.name = "classification",
          .description = "one class a sequence, or one a marked token",
          .options = describe<ClassificationConfig>(),
          .check =
              [](const Node& model) {
                check_encoder(read<ClassificationConfig>(model, "model").model.encoder, model);
              },
          .make =
              [](const Splits& splits, const Node& model, const TaskOptions& options) {
                return std::make_unique<Classification>(
                    splits, read<ClassificationConfig>(model, "model"), options);
              }};
}

}  // namespace longbow
