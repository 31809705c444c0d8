#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "longbow/models/perceiver/perceiver_ar.h"
#include "longbow/tasks/language.h"
#include "longbow/tasks/objectives.h"

namespace longbow {
namespace {

// Where the latents of a training sample stand.
enum class LatentPlace { anywhere, last };
constexpr std::array<std::string_view, 2> names_of(LatentPlace) {
  return {"anywhere", "last"};
}

struct PerceiverLmConfig : PerceiverArConfig {
  LatentPlace place = LatentPlace::anywhere;
  DecodingConfig decoding = {};
  int64_t end = 0;
};
template <class V>
void fields(V& v, PerceiverLmConfig& c) {
  fields(v, static_cast<PerceiverArConfig&>(c));
  v("latent_place", c.place,
    "where the latents of a training sample are: anywhere in it, drawn anew in each step, or its "
    "last tokens");
  v("decoding", c.decoding, "how texts are written");
  v("end", c.end, "id that ends a written text; 0 = the data's, if it has one", at_least(0));
}

class PerceiverLm : public TaskOf<PerceiverLmConfig, PerceiverAr> {
 public:
  PerceiverLm(const Splits& splits, const Config& config, const TaskOptions& options)
      : TaskOf(splits, config, options), lengths_(splits, options.device) {
    model_ = std::make_shared<PerceiverAr>(config_, splits_.vocabulary, options.seed);
  }
  static void check(const Config& config, const Node& tree) {
    const auto* decoding = tree.find("decoding");
    check_decoding(config.decoding, decoding ? *decoding : tree);
    check_perceiver_ar(config, tree);
  }
  static void check_data(const Splits& splits, const Config& config, const Node& tree) {
    check_end(config.end, splits, tree);
  }

  std::vector<Metric> metrics(const Tensors& sums) const override { return word_metrics(sums); }
  Node model_card() const override {
    return card("longbow_perceiver_ar", {{"vocabulary", splits_.vocabulary}});
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
  // Training predicts what follows N tokens of a sample, an evaluation what follows every token.
  // The last token, which nothing follows, is not read.
  Outcome outcome(const Batch& batch, Context& context) override {
    const int64_t read = std::max<int64_t>(batch.tokens.size(1) - 1, 1);
    const auto tokens = batch.tokens.narrow(1, 0, read);
    auto targets = next_tokens(batch.tokens, batch.lengths).narrow(1, 0, read);
    const auto lengths = (batch.lengths - 1).clamp_min(1);
    if (batch.padded) context.mask = Mask::from_lengths(lengths, read);
    const bool training = model_->is_training();
    Tensor logits;
    if (training) {
      const auto rows = (*model_)(tokens, first_latents(lengths, read, context), context);
      targets = targets.gather(1, rows.places.clamp_max(read - 1))
                    .masked_fill(rows.places >= lengths.unsqueeze(1), kIgnore);
      logits = rows.logits;
    } else {
      logits = model_->all(tokens, context);
    }
    auto outcome = language_loss(logits, targets, batch.samples, options_, training);
    if (!training) lengths_.count(targets, outcome.sums);
    return outcome;
  }

  // [B], or undefined for the last ones.
  Tensor first_latents(const Tensor& lengths, int64_t read, const Context& context) const {
    if (config_.place == LatentPlace::last || read <= config_.latents) return {};
    const auto drawn = context.random.uniform({lengths.size(0)}, "latent_place");
    const auto room = (lengths - config_.latents).clamp_min(0);
    return (drawn * (room + 1)).to(at::kLong).minimum(room);
  }

  TextLengths lengths_;
};

}  // namespace

Objective perceiver_ar_objective() {
  const auto baselines = [](const Splits& splits) {
    return word_baselines(splits, splits.vocabulary,
                          [](const Sample& sample) { return std::span(sample.tokens).subspan(1); });
  };
  return objective_of<PerceiverLm>(
      {.name = "perceiver_ar",
       .description = "the next token, by a Perceiver AR",
       .command = "generate",
       .sites = {{.name = "cross",
                  .path = "cross",
                  .key = "",
                  .choice = AttentionSite::Choice::fixed,
                  .queries = "latents"},
                 {.name = "latents",
                  .path = "blocks",
                  .needs = [](const Promises& p) { return p.future != Future::refused; },
                  .reads = "latents"}},
       .baselines = baselines,
       .causal = true,
       .recipe = {
           "{task: markov, objective: perceiver_ar, data: {markov: {train: 8000, valid: 500, "
           "test: 500, words: 16, length: 48}}, model: {latents: 16, attention: softmax}, "
           "train: {max_steps: 1500, learning_rate: 3e-3, evaluate_every: 250}}",
           "a perplexity of 3.7 over 16 words"}});
}

}  // namespace longbow
