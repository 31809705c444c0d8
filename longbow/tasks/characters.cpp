#include "longbow/tasks/characters.h"

#include "longbow/models/canine.h"
#include "longbow/tasks/prediction.h"

namespace longbow {
namespace {

// CANINE and a head: [B, N] -> [B, classes] of the first molecule, or [B, N, classes].
class CanineClassifier : public Part {
 public:
  CanineClassifier(const CanineConfig& config, int64_t classes, bool per_character, uint64_t seed)
      : per_character_(per_character),
        canine_(register_module("canine", std::make_shared<Canine>(config, seed))) {
    const Site site = {.path = "head", .init = "xavier", .seed = seed};
    output_ = register_module(
        "output", std::make_shared<Linear>(site.at("output"), config.encoder.width, classes));
  }
  Tensor operator()(const Tensor& characters, Context& context) {
    const auto out = (*canine_)(characters, {}, context);
    return (*output_)(per_character_ ? out.characters : out.pooled);
  }

 private:
  bool per_character_;
  std::shared_ptr<Canine> canine_;
  std::shared_ptr<Linear> output_;
};

class Characters : public Task {
 public:
  Characters(const Splits& splits, const CanineConfig& model, const TaskOptions& options)
      : Task(splits, options), config_(model) {
    fit_length(config_.encoder.max_length, splits_, options.bucket);
    model_ = std::make_shared<CanineClassifier>(config_, splits_.classes, splits_.per_token,
                                                options.seed);
    model_->to(options.device);
  }

  Part& model() override { return *model_; }

  Outcome run(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
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
    for (auto* attention : {&resolved.encoder.attention, &resolved.first, &resolved.last})
      *attention = resolved_attention(*attention);
    return written(resolved);
  }
  Node model_card() const override {
    return Node::map({{"model_type", Node::string("longbow_canine")},
                      {"classes", Node::integer(splits_.classes)}});
  }

  Texts texts() const override {
    return {.read = symbols(), .longest = config_.encoder.max_length};
  }
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    return class_predictions((*model_)(batch.tokens, context), batch);
  }

 private:
  CanineConfig config_;
  std::shared_ptr<CanineClassifier> model_;
};

}  // namespace

Objective characters_objective() {
  return {
      .name = "characters",
      .description = "one class a text, or one a marked character, by CANINE",
      .options = describe<CanineConfig>(),
      .check = [](const Node& model) { check_canine(read<CanineConfig>(model, "model"), model); },
      .make =
          [](const Splits& splits, const Node& model, const TaskOptions& options) {
            return std::make_unique<Characters>(splits, read<CanineConfig>(model, "model"),
                                                options);
          }};
}

}  // namespace longbow
