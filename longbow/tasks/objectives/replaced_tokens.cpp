#include <ATen/ATen.h>

#include <cmath>

#include "longbow/models/heads/replaced_token.h"
#include "longbow/tasks/masking.h"
#include "longbow/tasks/objectives.h"
#include "longbow/tasks/prediction.h"

namespace longbow {
namespace {

struct ReplacedTokensConfig : ReplacedTokenConfig {
  MaskingConfig masking = {.masked = 1, .random = 0};
  double generator_weight = 1, detector_weight = 50;
};
template <class V>
void fields(V& v, ReplacedTokensConfig& c) {
  fields(v, static_cast<ReplacedTokenConfig&>(c));
  v("masking", c.masking, "which tokens the generator fills");
  v("generator_weight", c.generator_weight,
    "factor on the generator's loss, a mean over hidden tokens", at_least(0));
  v("detector_weight", c.detector_weight, "factor on the detector's loss, a mean over all tokens",
    at_least(0));
}

class ReplacedTokens : public TaskOf<ReplacedTokensConfig, ReplacedTokenModel> {
 public:
  ReplacedTokens(const Splits& splits, const Config& config, const TaskOptions& options)
      : TaskOf(splits, config, options), ids_(splits, options.device) {
    model_ = std::make_shared<ReplacedTokenModel>(
        config_, Vocabulary{ids_.inputs(), ids_.vocabulary}, options.seed);
  }
  static void check(const Config& config, const Node& tree) {
    require_tokens(config.encoder, tree, "replaced_tokens");
    check_masking(config.masking, tree);
    check_encoder(config.encoder, tree);
    const auto* generator = tree.find("generator");
    const auto encoder = generator_of(config).encoder;
    check_encoder(encoder, generator ? *generator : tree);
    check_language_head(config.head,
                        config.generator.shared ? config.encoder.words() : encoder.words(),
                        encoder.width, tree);
  }
  static void check_data(const Splits& splits, const Config& config, const Node& tree) {
    check_masked_data(config.masking, splits, tree);
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    return {{"detector_loss", mean_of(sums, "detector", "count"), false},
            {"loss", mean_of(sums, "loss", "weight"), false},
            {"accuracy", mean_of(sums, "correct", "count")},
            {"found", mean_of(sums, "found", "replaced")},
            {"replaced", mean_of(sums, "replaced", "count"), false},
            {"generator_perplexity", std::exp(mean_of(sums, "generator", "hidden")), false}};
  }
  Node model_card() const override {
    return card("longbow_replaced_tokens",
                {{"vocabulary", ids_.vocabulary}, {"mask_token", ids_.mask}});
  }

  // Tokens replaced by the generator; targets are 1 where they were.
  Batch corrupt(const Batch& batch, const Random& random) const override {
    auto context = context_of(batch, random);
    const auto hidden = masked(batch, config_.masking, ids_, random);
    auto asked = batch;
    asked.tokens = filled(batch, hidden, model_->generated(hidden.tokens, context), random);
    asked.targets = (asked.tokens != batch.tokens)
                        .to(at::kLong)
                        .masked_fill(hidden.allowed.logical_not(), kIgnore);
    return asked;
  }
  // The frame is never replaced, and nothing is said of it.
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    const auto scores = (*model_)(batch.tokens, context);
    const auto sure = scores.to(wide(scores)).sigmoid();
    const auto& frame = splits_.frame;
    std::vector<Node> all;
    for (int64_t b = 0; b < batch.samples; ++b) {
      const auto length = batch.lengths[b].item<int64_t>() - frame.tokens();
      const auto real = [&](const Tensor& rows) {
        return rows[b].narrow(0, frame.first > 0 ? 1 : 0, length);
      };
      all.push_back(
          Node::map({{"text", Node::string(text_of(batch.tokens[b], batch.lengths[b], symbols()))},
                     {"probabilities", list_of(real(sure))}}));
      if (batch.targets.defined()) all.back()["target"] = list_of(real(batch.targets));
    }
    return all;
  }

 private:
  Outcome outcome(const Batch& batch, Context& context) override {
    const auto hidden = masked(batch, config_.masking, ids_, context.random);
    const auto words = model_->generated(hidden.tokens, context);
    const auto tokens = filled(batch, hidden, words, context.random);
    return counted(words, (*model_)(tokens, context), hidden, tokens != batch.tokens);
  }
  Config resolved() const override {
    auto config = TaskOf::resolved();
    const auto generator = generator_of(config_).encoder;
    config.generator = {.width = generator.width,
                        .heads = generator.heads,
                        .layers = generator.layers,
                        .attention = resolved_attention(generator.attention),
                        .shared = config_.generator.shared};
    return config;
  }
  Tensor filled(const Batch& batch, const Masked& hidden, const Tensor& words,
                const Random& random) const {
    return at::where(hidden.chosen,
                     drawn(words, config_.masking.first_token, random, "replacement"),
                     batch.tokens);
  }
  Outcome counted(const Tensor& words, const Tensor& scores, const Masked& hidden,
                  const Tensor& replaced) const {
    const auto rows = words.flatten(0, -2);
    const auto generator = at::cross_entropy_loss(rows.to(wide(rows)), hidden.targets.flatten(), {},
                                                  at::Reduction::Sum, kIgnore);
    const auto logits = scores.to(wide(scores));
    const auto each = at::binary_cross_entropy_with_logits(
        logits, replaced.to(logits.scalar_type()), {}, {}, at::Reduction::None);
    const auto& counted = hidden.allowed;
    const auto detector = each.masked_fill(counted.logical_not(), 0).sum();
    // Hidden tokens are `share` of those counted, so that both losses are means over their own
    // tokens once the sum is divided by what is counted, however batches are put together.
    const auto total = generator * (config_.generator_weight / config_.masking.fraction) +
                       detector * config_.detector_weight;
    const auto said = logits.detach() > 0;
    const auto right = (said == replaced).logical_and(counted);
    return {total,
            {{"loss", total.detach()},
             {"weight", counted.sum()},
             {"count", counted.sum()},
             {"correct", right.sum()},
             {"replaced", replaced.sum()},
             {"found", right.logical_and(replaced).sum()},
             {"detector", detector.detach()},
             {"generator", generator.detach()},
             {"hidden", hidden.chosen.sum()}}};
  }
  MaskIds ids_;
};

}  // namespace

Objective replaced_tokens_objective() {
  return objective_of<ReplacedTokens>(
      {.name = "replaced_tokens",
       .description = "which tokens a small masked language model has replaced",
       .sites = {{.name = "generator",
                  .path = "generator",
                  .part = "generator",
                  .choice = AttentionSite::Choice::follows},
                 {.name = "detector"}},
       .pretrains = true,
       .recipe = {
           "{task: markov, objective: replaced_tokens, data: {markov: {train: 8000, valid: 500, "
           "test: 500, words: 8, followers: 3, branches: 2, length: 32}}, model: {heads: 4, "
           "attention: softmax, generator: {width: 8, layers: 1}}, "
           "train: {max_steps: 1000, learning_rate: 3e-3}}",
           "a detector loss of 0.18; their share alone gives 0.23"}});
}

}  // namespace longbow
