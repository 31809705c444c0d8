#include "longbow/tasks/masked_lm.h"

#include <ATen/ATen.h>

#include "longbow/tasks/language.h"
#include "longbow/tasks/prediction.h"

namespace longbow {
namespace {

MaskedLmConfig read_checked(const Node& model) {
  auto config = read<MaskedLmConfig>(model, "model");
  check_masking(config.masking, model);
  return config;
}

class MaskedLm : public Task {
 public:
  MaskedLm(const Splits& splits, const MaskedLmConfig& model, const TaskOptions& options)
      : Task(splits, options), config_(model), ids_(splits) {
    auto& encoder = config_.model.encoder;
    fit_length(encoder.max_length, splits_, options.bucket);
    model_ = std::make_shared<LanguageModel>(
        config_.model, Vocabulary{ids_.inputs(), ids_.vocabulary}, options.seed);
    model_->to(options.device);
  }

  Part& model() override { return *model_; }

  Outcome run(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    const auto keep = Mask::from_lengths(batch.lengths, batch.tokens.size(1)).keep;
    const auto hidden = masked(batch.tokens, keep, config_.masking, ids_, random);
    const auto logits = (*model_)(hidden.tokens, context);
    return with_extra_loss(
        worded(logits, hidden.targets, batch.samples, options_, model_->is_training()), context);
  }

  std::vector<Metric> metrics(const Tensors& sums) const override { return word_metrics(sums); }

  Node model_config() const override {
    auto resolved = config_;
    auto& attention = resolved.model.encoder.attention;
    attention = resolved_attention(attention);
    return written(resolved);
  }
  Node model_card() const override {
    return Node::map({{"model_type", Node::string("longbow_masked_lm")},
                      {"vocabulary", Node::integer(ids_.vocabulary)},
                      {"mask_token", Node::integer(ids_.mask)}});
  }

  Texts texts() const override {
    return {.read = ids_.symbols(splits_),
            .longest = config_.model.encoder.max_length,
            .hidden = ids_.mask};
  }
  Batch posed(const Batch& batch, const Random& random) const override {
    const auto keep = Mask::from_lengths(batch.lengths, batch.tokens.size(1)).keep;
    const auto hidden = masked(batch.tokens, keep, config_.masking, ids_, random);
    auto asked = batch;
    asked.tokens = hidden.tokens;
    asked.targets = hidden.targets;
    return asked;
  }
  // What stands for the mask tokens of each text, or at the places that have a target.
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    const auto asked =
        batch.targets.defined() ? batch.targets != kIgnore : batch.tokens == ids_.mask;
    const auto logits = (*model_)(batch.tokens, context);
    const auto [sure, words] = logits.to(wide(logits)).softmax(-1).max(-1);
    const auto filled = at::where(asked, words, batch.tokens);
    const auto names = texts().read;
    std::vector<Node> all;
    for (int64_t b = 0; b < batch.samples; ++b) {
      const auto places = asked[b].nonzero().flatten();
      const auto there = [&](const Tensor& rows) { return rows[b].index_select(0, places); };
      all.push_back(Node::map({{"text", Node::string(text_of(filled[b], batch.lengths[b], names))},
                               {"places", list_of(places)},
                               {"words", words_of(there(words), names)},
                               {"probabilities", list_of(there(sure))}}));
      if (batch.targets.defined()) all.back()["target"] = words_of(there(batch.targets), names);
    }
    return all;
  }

 private:
  MaskedLmConfig config_;
  MaskIds ids_;
  std::shared_ptr<LanguageModel> model_;
};

}  // namespace

Objective masked_lm_objective() {
  return {
      .name = "masked_lm",
      .description = "hidden tokens, guessed from all others",
      .options = describe<MaskedLmConfig>(),
      .check = [](const Node& model) { check_encoder(read_checked(model).model.encoder, model); },
      .make =
          [](const Splits& splits, const Node& model, const TaskOptions& options) {
            return std::make_unique<MaskedLm>(splits, read_checked(model), options);
          }};
}

}  // namespace longbow
