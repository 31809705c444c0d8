#include "longbow/tasks/classification.h"

#include <ATen/ATen.h>

#include "longbow/models/classifier.h"

namespace longbow {
namespace {

class Classification : public Task {
 public:
  Classification(const Splits& splits, const ClassifierConfig& model, const TaskOptions& options)
      : Task(splits, options), config_(model) {
    fit_length(config_.encoder.max_length, splits_, options.bucket);
    if (splits_.per_token) config_.pooling = Pooling::none;
    model_ =
        std::make_shared<Classifier>(config_, splits_.vocabulary, splits_.classes, options.seed);
    model_->to(options.device);
  }

  Part& model() override { return *model_; }

  Outcome run(const Batch& batch, const Random& random) override {
    Context context = {.mask = mask_of(batch), .random = random};
    const auto logits = (*model_)(batch.tokens, context);
    return with_extra_loss(
        classified(logits, batch.targets, batch.samples, options_, model_->is_training()), context);
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    return {{"accuracy", mean_of(sums, "correct", "count")},
            {"loss", mean_of(sums, "loss", "weight"), false}};
  }

  Node model_config() const override {
    auto resolved = config_;
    resolved.encoder.attention = resolved_attention(resolved.encoder.attention);
    return written(resolved);
  }
  Node model_card() const override {
    return Node::map({{"model_type", Node::string("longbow_classifier")},
                      {"vocabulary", Node::integer(splits_.vocabulary)},
                      {"classes", Node::integer(splits_.classes)}});
  }

 private:
  ClassifierConfig config_;
  std::shared_ptr<Classifier> model_;
};

}  // namespace

Objective classification_objective() {
  return {.name = "classification",
          .description = "one class a sequence, or one a marked token",
          .options = describe<ClassifierConfig>(),
          .check =
              [](const Node& model) {
                check_encoder(read<ClassifierConfig>(model, "model").encoder, model);
              },
          .make =
              [](const Splits& splits, const Node& model, const TaskOptions& options) {
                return std::make_unique<Classification>(
                    splits, read<ClassifierConfig>(model, "model"), options);
              }};
}

}  // namespace longbow
