#include <ATen/ATen.h>

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
  }
  static void check(const Config& config, const Node& tree) {
    if (!config.encoder.causal)
      throw UserError(tree.find("causal")->place, "causal_lm needs a causal model",
                      "leave model.causal out, or take masked_lm");
    const auto* decoding = tree.find("decoding");
    check_decoding(config.decoding, decoding ? *decoding : tree);
    check_language_model(config, tree);
  }

  std::vector<Metric> metrics(const Tensors& sums) const override { return word_metrics(sums); }
  Node model_card() const override {
    return card("longbow_causal_lm", {{"vocabulary", splits_.vocabulary}});
  }

  // What begins and ends a target of the data is no token here, where only its sources are read.
  Texts texts() const override {
    const bool plain = !splits_.train->has_second();
    return {.read = symbols(),
            .written = symbols(),
            .longest = config_.encoder.max_length,
            .holds = config_.encoder.max_length,
            .begin = plain ? splits_.begin : 0,
            .end = config_.end > 0 ? config_.end
                   : plain         ? splits_.end
                                   : 0};
  }
  const DecodingConfig& decoding() const override { return config_.decoding; }
  Decoded write(const Batch& batch, const DecodingConfig& how, const Random& random) override {
    check_decodes(config_.encoder.attention, config_.encoder.layers);
    Prompt prompt = {batch.tokens};
    if (batch.padded) prompt.keep = Mask::from_lengths(batch.lengths, batch.tokens.size(1)).keep;
    // Neither padding nor a beginning, which no text holds.
    const auto [begin, end] = std::pair(texts().begin, texts().end);
    const auto model = without(model_->continuation(batch.tokens.size(0), random), {0, begin});
    return decode(model, prompt, end > 0 ? end : -1, how, random);
  }

 private:
  Outcome outcome(const Batch& batch, Context& context) override {
    const auto targets = next_tokens(batch.tokens, batch.lengths);
    auto outcome = language_loss((*model_)(batch.tokens, context), targets, batch.samples, options_,
                                 model_->is_training());
    if (!model_->is_training()) lengths_.count(targets, outcome.sums);
    return outcome;
  }
  TextLengths lengths_;
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
                                 .causal = true});
}

}  // namespace longbow
