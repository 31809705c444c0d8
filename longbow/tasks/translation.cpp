#include "longbow/tasks/translation.h"

#include <ATen/ATen.h>

#include "longbow/models/seq2seq.h"

namespace longbow {
namespace {

struct Config {
  Seq2SeqConfig model = {};
  DecodingConfig decoding = {};
  bool exact_match = false;
};
template <class V>
void fields(V& v, Config& c) {
  fields(v, c.model);
  v("decoding", c.decoding, "how targets are written");
  v("exact_match", c.exact_match,
    "evaluations also write every target with greedy decoding and count those without a mistake");
}

void check(const Config& config, const Node& tree) {
  check_seq2seq(config.model, tree);
  const auto* decoding = tree.find("decoding");
  check_decoding(config.decoding, decoding ? *decoding : tree);
}

class Translation : public Task {
 public:
  Translation(const Splits& splits, const Config& config, const TaskOptions& options)
      : Task(splits, options), config_(config) {
    fit_length(config_.model.encoder.max_length, splits_, options.bucket);
    fit_length(config_.model.decoder.max_length, splits_, options.bucket);
    model_ = std::make_shared<Seq2Seq>(config_.model, splits_.vocabulary, target_vocabulary(),
                                       options.seed);
    model_->to(options.device);
  }

  Part& model() override { return *model_; }

  Outcome run(const Batch& batch, const Random& random) override {
    const int64_t longest = batch.second.size(1);
    Context context = {
        .mask = Mask::from_lengths(batch.second_lengths, longest), .random = random, .maps = maps_};
    const auto targets = batch.second.masked_fill(context.mask.keep.logical_not(), kIgnore);
    const auto logits = (*model_)(batch.tokens, source_mask(batch), shifted(batch.second), context);
    auto outcome = classified(logits, targets, batch.samples, options_, model_->is_training());
    outcome.sums["log_loss"] = log_loss(logits, targets, outcome);
    if (config_.exact_match && !model_->is_training()) count_exact(batch, random, outcome.sums);
    return with_extra_loss(outcome, context);
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    std::vector<Metric> all = {{"perplexity", std::exp(mean_of(sums, "log_loss", "count")), false},
                               {"accuracy", mean_of(sums, "correct", "count")},
                               {"loss", mean_of(sums, "loss", "weight"), false}};
    if (sums.count("sequences"))
      all.push_back({"exact_match", mean_of(sums, "exact", "sequences")});
    return all;
  }

  Node model_config() const override {
    auto resolved = config_;
    auto& [encoder, decoder, tie] = resolved.model;
    for (auto* attention : {&encoder.attention, &decoder.attention, &decoder.cross_attention})
      *attention = resolved_attention(*attention);
    return written(resolved);
  }
  Node model_card() const override {
    return Node::map({{"model_type", Node::string("longbow_seq2seq")},
                      {"vocabulary", Node::integer(splits_.vocabulary)},
                      {"target_vocabulary", Node::integer(target_vocabulary())},
                      {"begin", Node::integer(splits_.begin)},
                      {"end", Node::integer(splits_.end)}});
  }

  Texts texts() const override {
    const bool own = splits_.second_vocabulary > 0;
    return {.read = symbols(),
            .written = {own ? splits_.second_symbols : splits_.symbols, target_vocabulary()},
            .longest = config_.model.encoder.max_length,
            .holds = config_.model.decoder.max_length,
            .begin = splits_.begin,
            .end = splits_.end};
  }
  const DecodingConfig& decoding() const override { return config_.decoding; }
  Decoded write(const Batch& batch, const DecodingConfig& how, const Random& random) override {
    return decode(continuation(batch, random), begin(batch), splits_.end, how, random);
  }

 private:
  int64_t target_vocabulary() const {
    return splits_.second_vocabulary > 0 ? splits_.second_vocabulary : splits_.vocabulary;
  }
  static Mask source_mask(const Batch& batch) {
    return Mask::from_lengths(batch.lengths, batch.tokens.size(1));
  }
  // Neither padding nor the beginning, which no target holds.
  Continuation continuation(const Batch& batch, const Random& random) const {
    return without(model_->continuation(batch.tokens, source_mask(batch), random),
                   {0, splits_.begin});
  }
  Prompt begin(const Batch& batch) const {
    return Prompt::begin(batch.tokens.size(0), splits_.begin, options_.device);
  }

  // What the decoder reads: the beginning, then every token but the last.
  Tensor shifted(const Tensor& target) const {
    const auto begin = at::full({target.size(0), 1}, splits_.begin, target.options());
    return at::cat({begin, target.narrow(1, 0, target.size(1) - 1)}, 1);
  }

  // Without what smoothing adds, over all tokens alike: the perplexity is that of the corpus.
  Tensor log_loss(const Tensor& logits, const Tensor& targets, const Outcome& outcome) const {
    const bool smooth = model_->is_training() && options_.label_smoothing > 0;
    if (!smooth && options_.normalise == Normalise::targets) return outcome.sums.at("loss");
    const auto rows = logits.detach().flatten(0, -2);
    return at::cross_entropy_loss(rows.to(wide(rows)), targets.flatten(), {}, at::Reduction::Sum,
                                  kIgnore);
  }

  void count_exact(const Batch& batch, const Random& random, Tensors& sums) {
    const auto found = decode_greedily(continuation(batch, random), begin(batch), splits_.end,
                                       batch.second.size(1));
    sums["exact"] = (found == batch.second).all(1).sum();
    sums["sequences"] = at::full({}, batch.samples, found.options());
  }

  Config config_;
  std::shared_ptr<Seq2Seq> model_;
};

std::unique_ptr<Task> make(const Splits& splits, const Node& tree, const TaskOptions& options) {
  const auto config = read<Config>(tree, "model");
  const auto target = splits.second_vocabulary > 0 ? splits.second_vocabulary : splits.vocabulary;
  const auto* tie = tree.find("tie");
  if (config.model.tie == Tie::all && target != splits.vocabulary)
    throw UserError(tie ? tie->place : tree.place,
                    "tie all needs one vocabulary, but the source has " +
                        std::to_string(splits.vocabulary) + " entries and the target " +
                        std::to_string(target),
                    "set tie to output");
  if (!splits.train->has_second() || splits.begin == 0 || splits.end == 0)
    throw UserError(tree.place, "the data has no target sequences",
                    "translation needs pairs with ids that begin and end a target");
  return std::make_unique<Translation>(splits, config, options);
}

}  // namespace

Objective translation_objective() {
  return {.name = "translation",
          .description = "a target sequence for every source",
          .options = describe<Config>(),
          .check = [](const Node& model) { check(read<Config>(model, "model"), model); },
          .make = make,
          .command = "translate"};
}

Decoded translate(Task& task, const Batch& batch, const Random& random) {
  return translate(task, batch, task.decoding(), random);
}

Decoded translate(Task& task, const Batch& batch, const DecodingConfig& decoding,
                  const Random& random) {
  return task.write(batch.to(task.device()), decoding, random);
}

}  // namespace longbow
