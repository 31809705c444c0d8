#include <ATen/ATen.h>

#include <optional>

#include "longbow/models/heads/language_model.h"
#include "longbow/tasks/language.h"
#include "longbow/tasks/objectives.h"

namespace longbow {
namespace {

struct CausalLmConfig : LanguageModelConfig {
  CausalLmConfig() {
    encoder.causal = true;
    head.transform = false;
  }
  DecodingConfig decoding = {};
  int64_t end = 0;
};
template <class V>
void fields(V& v, CausalLmConfig& c) {
  fields(v, static_cast<LanguageModelConfig&>(c));
  v("decoding", c.decoding, "how texts are written");
  v("end", c.end, "id that ends a written text; 0 = the data's, if it has one", at_least(0));
}

class CausalLm : public TaskOf<CausalLmConfig, LanguageModel> {
 public:
  CausalLm(const Splits& splits, const Config& config, const TaskOptions& options)
      : TaskOf(splits, config, options), lengths_(splits, options.device) {
    model_ = std::make_shared<LanguageModel>(
        config_, Vocabulary{splits_.vocabulary, splits_.vocabulary}, options.seed);
    if (options.lanes > 0) check_decodes(config_.encoder.attention, config_.encoder.layers);
  }
  static void check(const Config& config, const Node& tree) {
    if (!config.encoder.causal)
      throw UserError(tree.find("causal")->place, "causal_lm needs a causal model",
                      "leave model.causal out, or take masked_lm");
    const auto* decoding = tree.find("decoding");
    check_decoding(config.decoding, decoding ? *decoding : tree);
    check_language_model(config, tree);
  }
  static void check_data(const Splits& splits, const Config& config, const Node& tree) {
    check_end(config.end, splits, tree);
  }

  Lanes* lanes() override {
    if (options_.lanes == 0 || lanes_) return lanes_ ? &*lanes_ : nullptr;
    if (!splits_.train->running())
      throw UserError("train.carry: the samples are not one running text",
                      "take data like lines, without across: false, or leave train.carry out");
    return &lanes_.emplace(model_->start(options_.lanes, {}));
  }
  std::vector<Metric> metrics(const Tensors& sums) const override { return word_metrics(sums); }
  Node model_card() const override {
    return card("longbow_causal_lm", {{"vocabulary", splits_.vocabulary}});
  }

  Texts texts() const override {
    return continued_texts(splits_, symbols(), config_.encoder.max_length, config_.end);
  }
  const DecodingConfig& decoding() const override { return config_.decoding; }
  Decoded write(const Batch& batch, const DecodingConfig& how, const Random& random) override {
    check_decodes(config_.encoder.attention, config_.encoder.layers);
    return continued(model_->continuation(batch.tokens.size(0), random), batch, texts(), how,
                     random);
  }

 private:
  Outcome outcome(const Batch& batch, Context& context) override {
    auto targets = next_tokens(batch.tokens, batch.lengths);
    if (options_.lanes > 0) targets = targets.narrow(1, 0, targets.size(1) - 1);
    const auto logits =
        options_.lanes > 0 ? going_on(batch, context) : (*model_)(batch.tokens, context);
    auto outcome = language_loss(logits, targets, batch.samples, options_, model_->is_training());
    if (!model_->is_training()) lengths_.count(targets, outcome.sums);
    return outcome;
  }

  // The last token of a row is the first of its next sample, and is read then. A row that has
  // become too long for the model begins anew.
  Tensor going_on(const Batch& batch, Context& context) {
    const int64_t rows = batch.tokens.size(0), tokens = batch.tokens.size(1) - 1;
    if (batch.padded) context.mask = Mask::from_lengths(batch.lengths - 1, tokens);
    const auto read = [&](State& state) {
      state.reset(state.seen + tokens > model_->max_length());
      return model_->extend(batch.tokens.narrow(1, 0, tokens), state, context);
    };
    if (model_->is_training()) {
      auto state = lanes()->take(rows);
      const auto logits = read(state);
      lanes()->put(state);
      return logits;
    }
    const bool goes_on =
        !batch.first && evaluated_.seen.defined() && evaluated_.seen.size(0) >= rows;
    if (!goes_on)
      evaluated_ = model_->start(rows, context.random);
    else if (evaluated_.seen.size(0) > rows)
      evaluated_.reorder(at::arange(rows, evaluated_.seen.options()));
    return read(evaluated_);
  }

  TextLengths lengths_;
  std::optional<Lanes> lanes_;  // of the training, made with its weights
  State evaluated_;
};

}  // namespace

Objective causal_lm_objective() {
  const auto baselines = [](const Splits& splits) {
    return word_baselines(splits, splits.vocabulary,
                          [](const Sample& sample) { return std::span(sample.tokens).subspan(1); });
  };
  return objective_of<CausalLm>({.name = "causal_lm",
                                 .description = "the next token, from those before it",
                                 .command = "generate",
                                 .baselines = baselines,
                                 .pretrains = true,
                                 .causal = true,
                                 .carries = true});
}

}  // namespace longbow
