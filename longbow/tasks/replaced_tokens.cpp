#include "longbow/tasks/replaced_tokens.h"

#include <ATen/ATen.h>

#include <cmath>

#include "longbow/tasks/prediction.h"

namespace longbow {
namespace {

ReplacedTokensConfig read_checked(const Node& model) {
  auto config = read<ReplacedTokensConfig>(model, "model");
  check_masking(config.masking, model);
  return config;
}

void check(const Node& model) {
  const auto config = read_checked(model);
  check_encoder(config.model.encoder, model);
  const auto* generator = model.find("generator");
  check_encoder(generator_of(config.model).encoder, generator ? *generator : model);
}

class ReplacedTokens : public Task {
 public:
  ReplacedTokens(const Splits& splits, const ReplacedTokensConfig& model,
                 const TaskOptions& options)
      : Task(splits, options), config_(model), ids_(splits) {
    fit_length(config_.model.encoder.max_length, splits_, options.bucket);
    model_ = std::make_shared<ReplacedTokenModel>(
        config_.model, Vocabulary{ids_.inputs(), ids_.vocabulary}, options.seed);
    model_->to(options.device);
  }

  Part& model() override { return *model_; }

  Outcome run(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    const auto keep = Mask::from_lengths(batch.lengths, batch.tokens.size(1)).keep;
    const auto hidden = masked(batch.tokens, keep, config_.masking, ids_, random);
    const auto words = model_->generated(hidden.tokens, context);
    const auto tokens = filled(batch, hidden, words, random);
    const auto replaced = tokens != batch.tokens;
    const auto scores = (*model_)(tokens, context);
    return with_extra_loss(counted(words, scores, hidden, replaced), context);
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    return {{"detector_loss", mean_of(sums, "detector", "count"), false},
            {"loss", mean_of(sums, "loss", "weight"), false},
            {"accuracy", mean_of(sums, "correct", "count")},
            {"found", mean_of(sums, "found", "replaced")},
            {"replaced", mean_of(sums, "replaced", "count"), false},
            {"generator_perplexity", std::exp(mean_of(sums, "generator", "hidden")), false}};
  }

  Node model_config() const override {
    auto resolved = config_;
    auto& model = resolved.model;
    const auto generator = generator_of(model).encoder;
    model.encoder.attention = resolved_attention(model.encoder.attention);
    model.generator = {.width = generator.width,
                       .heads = generator.heads,
                       .layers = generator.layers,
                       .attention = resolved_attention(generator.attention),
                       .shared = model.generator.shared};
    return written(resolved);
  }
  Node model_card() const override {
    return Node::map({{"model_type", Node::string("longbow_replaced_tokens")},
                      {"vocabulary", Node::integer(ids_.vocabulary)},
                      {"mask_token", Node::integer(ids_.mask)}});
  }

  Texts texts() const override {
    return {.read = symbols(), .longest = config_.model.encoder.max_length};
  }
  // Tokens replaced by the generator; targets are 1 where they were.
  Batch posed(const Batch& batch, const Random& random) const override {
    auto context = context_of(batch, random);
    const auto keep = Mask::from_lengths(batch.lengths, batch.tokens.size(1)).keep;
    const auto hidden = masked(batch.tokens, keep, config_.masking, ids_, random);
    auto asked = batch;
    asked.tokens = filled(batch, hidden, model_->generated(hidden.tokens, context), random);
    asked.targets = (asked.tokens != batch.tokens)
                        .to(at::kLong)
                        .masked_fill(hidden.allowed.logical_not(), kIgnore);
    return asked;
  }
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    const auto scores = (*model_)(batch.tokens, context);
    const auto sure = scores.to(wide(scores)).sigmoid();
    std::vector<Node> all;
    for (int64_t b = 0; b < batch.samples; ++b) {
      const auto length = batch.lengths[b].item<int64_t>();
      const auto real = [&](const Tensor& rows) { return rows[b].narrow(0, 0, length); };
      all.push_back(
          Node::map({{"text", Node::string(text_of(batch.tokens[b], batch.lengths[b], symbols()))},
                     {"probabilities", list_of(real(sure))}}));
      if (batch.targets.defined()) all.back()["target"] = list_of(real(batch.targets));
    }
    return all;
  }

 private:
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
    const auto total = generator * (config_.generator_weight / config_.masking.share) +
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

  ReplacedTokensConfig config_;
  MaskIds ids_;
  std::shared_ptr<ReplacedTokenModel> model_;
};

}  // namespace

Objective replaced_tokens_objective() {
  return {.name = "replaced_tokens",
          .description = "which tokens a small masked language model has replaced",
          .options = describe<ReplacedTokensConfig>(),
          .check = check,
          .make = [](const Splits& splits, const Node& model, const TaskOptions& options) {
            return std::make_unique<ReplacedTokens>(splits, read_checked(model), options);
          }};
}

}  // namespace longbow
