#include "longbow/models/canine/canine.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/tasks/objectives.h"
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

class Characters : public TaskOf<CanineConfig, CanineClassifier> {
 public:
  Characters(const Splits& splits, const Config& config, const TaskOptions& options)
      : TaskOf(splits, config, options) {
    model_ = std::make_shared<CanineClassifier>(config_, splits_.classes, splits_.per_token,
                                                options.seed);
  }
  static void check(const Config& config, const Node& tree) { check_canine(config, tree); }
  static void check_data(const Splits& splits, const Config&, const Node&) {
    check_classes(splits, "characters");
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    return {{"accuracy", mean_of(sums, "correct", "count")},
            {"loss", mean_of(sums, "loss", "weight"), false}};
  }
  Node model_card() const override {
    return card("longbow_canine", {{"classes", splits_.classes}});
  }
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    return class_predictions((*model_)(batch.tokens, context), batch, splits_.labels);
  }

 private:
  Outcome outcome(const Batch& batch, Context& context) override {
    return classification_loss((*model_)(batch.tokens, context), batch.targets, batch.samples,
                               options_, model_->is_training());
  }
  Config resolved() const override {
    auto config = TaskOf::resolved();
    for (auto* attention : {&config.first, &config.last})
      *attention = resolved_attention(*attention);
    return config;
  }
};

}  // namespace

Objective characters_objective() {
  using Choice = AttentionSite::Choice;
  return objective_of<Characters>(
      {.name = "characters",
       .description = "one class a text, or one a marked character, by CANINE",
       .sites = {{.name = "first", .path = "first", .key = "first", .choice = Choice::fixed},
                 {.name = "deep", .path = "deep", .reads = "molecules"},
                 {.name = "last", .path = "last", .key = "last", .choice = Choice::fixed}},
       .baselines = class_baselines,
       .recipe = {
           "{task: listops, objective: characters, data: {listops: {train: 8000, valid: 500, "
           "test: 1000, min_length: 20, max_length: 100, max_depth: 5}}, model: {max_length: 112, "
           "rate: 4, hashes: 4, buckets: 64, first: softmax, last: softmax, attention: softmax}}",
           "38 % accuracy; the outermost operator alone tells 34 %"}});
}

}  // namespace longbow
