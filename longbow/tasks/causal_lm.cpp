#include "longbow/tasks/causal_lm.h"

#include <ATen/ATen.h>

#include "longbow/tasks/language.h"

namespace longbow {
namespace {

CausalLmConfig read_checked(const Node& model) {
  auto config = read<CausalLmConfig>(model, "model");
  if (!config.encoder.causal)
    throw UserError(model.find("causal")->place, "causal_lm needs a causal model",
                    "leave model.causal out, or take masked_lm");
  const auto* decoding = model.find("decoding");
  check_decoding(config.decoding, decoding ? *decoding : model);
  return config;
}

class CausalLm : public Task {
 public:
  CausalLm(const Splits& splits, const CausalLmConfig& model, const TaskOptions& options)
      : Task(splits, options), config_(model) {
    fit_length(config_.encoder.max_length, splits_, options.bucket);
    model_ = std::make_shared<LanguageModel>(
        config_, Vocabulary{splits_.vocabulary, splits_.vocabulary}, options.seed);
    model_->to(options.device);
  }

  Part& model() override { return *model_; }

  Outcome run(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    const auto logits = (*model_)(batch.tokens, context);
    return with_extra_loss(worded(logits, next_tokens(batch.tokens, batch.lengths), batch.samples,
                                  options_, model_->is_training()),
                           context);
  }

  std::vector<Metric> metrics(const Tensors& sums) const override { return word_metrics(sums); }

  Node model_config() const override {
    auto resolved = config_;
    resolved.encoder.attention = resolved_attention(resolved.encoder.attention);
    return written(resolved);
  }
  Node model_card() const override {
    return Node::map({{"model_type", Node::string("longbow_causal_lm")},
                      {"vocabulary", Node::integer(splits_.vocabulary)}});
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
  CausalLmConfig config_;
  std::shared_ptr<LanguageModel> model_;
};

}  // namespace

Tensor next_tokens(const Tensor& tokens, const Tensor& lengths) {
  const auto place = at::arange(1, tokens.size(1) + 1, lengths.options()).unsqueeze(0);
  return tokens.roll(-1, 1).masked_fill(place >= lengths.unsqueeze(1), kIgnore);
}

Objective causal_lm_objective() {
  return {.name = "causal_lm",
          .description = "the next token, from those before it",
          .options = describe<CausalLmConfig>(),
          .check = [](const Node& model) { check_encoder(read_checked(model).encoder, model); },
          .make =
              [](const Splits& splits, const Node& model, const TaskOptions& options) {
                return std::make_unique<CausalLm>(splits, read_checked(model), options);
              },
          .command = "generate"};
}

}  // namespace longbow
