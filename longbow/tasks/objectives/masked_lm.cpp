#include <ATen/ATen.h>

#include "longbow/models/heads/language_model.h"
#include "longbow/tasks/language.h"
#include "longbow/tasks/masking.h"
#include "longbow/tasks/objectives.h"
#include "longbow/tasks/prediction.h"

namespace longbow {
namespace {

struct MaskedLmConfig : LanguageModelConfig {
  MaskingConfig masking = {};
};
template <class V>
void fields(V& v, MaskedLmConfig& c) {
  fields(v, static_cast<LanguageModelConfig&>(c));
  v("masking", c.masking, "which tokens are hidden");
}

class MaskedLm : public TaskOf<MaskedLmConfig, LanguageModel> {
 public:
  MaskedLm(const Splits& splits, const Config& config, const TaskOptions& options)
      : TaskOf(splits, config, options), ids_(splits, options.device) {
    model_ = std::make_shared<LanguageModel>(config_, Vocabulary{ids_.inputs(), ids_.vocabulary},
                                             options.seed);
  }
  static void check(const Config& config, const Node& tree) {
    check_masking(config.masking, tree);
    check_language_model(config, tree);
  }
  static void check_data(const Splits& splits, const Config& config, const Node& tree) {
    check_masked_data(config.masking, splits, tree);
  }

  std::vector<Metric> metrics(const Tensors& sums) const override { return word_metrics(sums); }
  Node model_card() const override {
    return card("longbow_masked_lm", {{"vocabulary", ids_.vocabulary}, {"mask_token", ids_.mask}});
  }

  Texts texts() const override {
    return {.read = ids_.symbols(splits_),
            .longest = config_.encoder.max_length,
            .frame = splits_.frame,
            .hidden = ids_.mask};
  }
  Batch corrupt(const Batch& batch, const Random& random) const override {
    const auto hidden = masked(batch, config_.masking, ids_, random);
    auto asked = batch;
    asked.tokens = hidden.tokens;
    asked.targets = hidden.targets;
    return asked;
  }
  // What stands for the mask tokens of each text, or at the places that have a target. Places are
  // counted from 0 in the text, without the frame.
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    const auto asked =
        batch.targets.defined() ? batch.targets != kIgnore : batch.tokens == ids_.mask;
    const auto logits = (*model_)(batch.tokens, context);
    const auto [sure, words] = logits.to(wide(logits)).softmax(-1).max(-1);
    const auto filled = at::where(asked, words, batch.tokens);
    const auto names = texts().read;
    const int64_t before = splits_.frame.first > 0 ? 1 : 0;
    std::vector<Node> all;
    for (int64_t b = 0; b < batch.samples; ++b) {
      const auto places = asked[b].nonzero().flatten();
      const auto there = [&](const Tensor& rows) { return rows[b].index_select(0, places); };
      all.push_back(Node::map({{"text", Node::string(text_of(filled[b], batch.lengths[b], names))},
                               {"places", list_of(places - before)},
                               {"words", words_of(there(words), names)},
                               {"probabilities", list_of(there(sure))}}));
      if (batch.targets.defined()) all.back()["target"] = words_of(there(batch.targets), names);
    }
    return all;
  }

 private:
  Outcome outcome(const Batch& batch, Context& context) override {
    const auto hidden = masked(batch, config_.masking, ids_, context.random);
    return language_loss((*model_)(hidden.tokens, context), hidden.targets, batch.samples, options_,
                         model_->is_training());
  }
  MaskIds ids_;
};

}  // namespace

Objective masked_lm_objective() {
  return objective_of<MaskedLm>(
      {.name = "masked_lm",
       .description = "hidden tokens, guessed from all others",
       .pretrains = true,
       .bert = BertHead::words,
       .recipe = {"{task: markov, objective: masked_lm, data: {markov: {train: 8000, valid: 500, "
                  "test: 500, words: 8, followers: 3, branches: 2, length: 32}}, model: {heads: 4, "
                  "attention: softmax, masking: {fraction: 0.15}}, "
                  "train: {max_steps: 1000, learning_rate: 3e-3}}",
                  "a perplexity of 1.7 over 8 words"}});
}

}  // namespace longbow
