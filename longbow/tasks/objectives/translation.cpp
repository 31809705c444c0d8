#include "longbow/tasks/objectives/translation.h"

#include <ATen/ATen.h>

#include <cmath>

#include "longbow/metrics/bleu.h"
#include "longbow/models/decoder/seq2seq.h"
#include "longbow/tasks/language.h"
#include "longbow/tasks/objectives.h"

namespace longbow {
namespace {

enum class TranslationMetric { perplexity, bleu };
constexpr std::array<std::string_view, 2> names_of(TranslationMetric) {
  return {"perplexity", "bleu"};
}

struct TranslationConfig : Seq2SeqConfig {
  DecodingConfig decoding = {};
  bool exact_match = false;
  TranslationMetric metric = TranslationMetric::perplexity;
};
template <class V>
void fields(V& v, TranslationConfig& c) {
  fields(v, static_cast<Seq2SeqConfig&>(c));
  v("decoding", c.decoding, "how targets are written");
  v("exact_match", c.exact_match,
    "evaluations also write every target with greedy decoding and count those without a mistake");
  v("metric", c.metric,
    "of the validation split, what the best weights are chosen by; bleu: evaluations also write "
    "every target and compare it with the reference, both as text (13a)");
}

int64_t target_vocabulary(const Splits& splits) {
  return splits.second_vocabulary > 0 ? splits.second_vocabulary : splits.vocabulary;
}

constexpr size_t kOrders = 4;  // of the n-grams that BLEU counts

class Translation : public TaskOf<TranslationConfig, Seq2Seq> {
 public:
  Translation(const Splits& splits, const Config& config, const TaskOptions& options)
      : TaskOf(splits, config, options) {
    model_ = std::make_shared<Seq2Seq>(config_, splits_.vocabulary, target_vocabulary(splits_),
                                       options.seed);
  }
  static Node complete(const Node& model) { return with_parts(model); }
  static void check(const Config& config, const Node& tree) {
    check_seq2seq(config, tree);
    const auto* decoding = tree.find("decoding");
    check_decoding(config.decoding, decoding ? *decoding : tree);
  }
  static void fit(Config& config, const Splits& splits, int64_t bucket, const Node& tree) {
    const auto fit_part = [&](const char* name, int64_t& length) {
      const auto* part = tree.find(name);
      check_options(part ? *part : tree, std::string("model.") + name,
                    [&] { fit_length(length, splits, bucket); });
    };
    fit_part("encoder", config.encoder.max_length);
    fit_part("decoder", config.decoder.max_length);
    if (config.metric == TranslationMetric::bleu &&
        config.decoding.max_length > config.decoder.max_length)
      throw UserError(tree.place_of("decoding.max_length"),
                      "model.decoding.max_length is " + std::to_string(config.decoding.max_length) +
                          ", but the decoder holds " + std::to_string(config.decoder.max_length),
                      "lower it, or raise model.decoder.max_length");
  }
  static void check_data(const Splits& splits, const Config& config, const Node& tree) {
    const auto target = target_vocabulary(splits);
    if (config.tie == Tie::all && target != splits.vocabulary)
      throw UserError(tree.place_of("tie"),
                      "tie all needs one vocabulary, but the source has " +
                          std::to_string(splits.vocabulary) + " entries and the target " +
                          std::to_string(target),
                      "set tie to output");
    if (!splits.train->has_second() || splits.begin == 0 || splits.end == 0)
      throw UserError(tree.place, "the data has no target sequences",
                      "translation needs pairs with ids that begin and end a target");
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    std::vector<Metric> all = {{"perplexity", std::exp(mean_of(sums, "nats", "count")), false},
                               {"accuracy", mean_of(sums, "correct", "count")},
                               {"loss", mean_of(sums, "loss", "weight"), false}};
    if (const auto found = sums.find("bleu"); found != sums.end())
      all.insert(all.begin(), {"bleu", bleu_of(found->second)});
    if (sums.count("sequences"))
      all.push_back({"exact_match", mean_of(sums, "exact", "sequences")});
    return all;
  }
  Node model_card() const override {
    return card("longbow_seq2seq", {{"vocabulary", splits_.vocabulary},
                                    {"target_vocabulary", target_vocabulary(splits_)},
                                    {"begin", splits_.begin},
                                    {"end", splits_.end}});
  }

  Texts texts() const override {
    const bool own = splits_.second_vocabulary > 0;
    return {.read = symbols(),
            .written = {own ? splits_.second_symbols : splits_.symbols, target_vocabulary(splits_),
                        0, own ? splits_.second_codec : splits_.codec},
            .longest = config_.encoder.max_length,
            .holds = config_.decoder.max_length,
            .begin = splits_.begin,
            .end = splits_.end,
            .frame = splits_.frame};
  }
  const DecodingConfig& decoding() const override { return config_.decoding; }
  Decoded write(const Batch& batch, const DecodingConfig& how, const Random& random) override {
    return decode(continuation(batch, random), begin(batch), splits_.end, how, random);
  }

 private:
  Outcome outcome(const Batch& batch, Context& context) override {
    const auto targets = batch.second.masked_fill(context.mask.keep.logical_not(), kIgnore);
    const auto logits = (*model_)(batch.tokens, source_mask(batch), shifted(batch.second), context);
    auto outcome = language_loss(logits, targets, batch.samples, options_, model_->is_training());
    if (config_.exact_match && !model_->is_training())
      count_exact(batch, context.random, outcome.sums);
    if (config_.metric == TranslationMetric::bleu && !model_->is_training())
      outcome.sums["bleu"] = bleu_counts(batch, context.random);
    return outcome;
  }
  Config resolved() const override {
    auto config = TaskOf::resolved();
    for (auto* attention : {&config.decoder.attention, &config.decoder.cross_attention})
      *attention = resolved_attention(*attention);
    return config;
  }
  // Of the targets, which the decoder reads.
  Context context_of(const Batch& batch, const Random& random) const override {
    return {.mask = Mask::from_lengths(batch.second_lengths, batch.second.size(1)),
            .random = random,
            .maps = maps_};
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

  // Matches and totals of each order, then both lengths, over the batch: BLEU is one of a corpus.
  Tensor bleu_counts(const Batch& batch, const Random& random) {
    const auto decoded =
        decode(continuation(batch, random), begin(batch), splits_.end, config_.decoding, random);
    const auto symbols = texts().written;
    const auto hypotheses = decoded.tokens.select(1, 0).cpu(),
               lengths = decoded.lengths.select(1, 0).cpu(), targets = batch.second.cpu(),
               target_lengths = batch.second_lengths.cpu();
    metrics::BleuStatistics sum;
    for (int64_t i = 0; i < batch.samples; ++i) {
      const auto hypothesis = written(hypotheses[i], lengths[i].item<int64_t>(), symbols);
      // Tokens may have lost what a normalizer drops, and what is behind the last one.
      const auto reference = batch.references.empty()
                                 ? written(targets[i], target_lengths[i].item<int64_t>(), symbols)
                                 : batch.references[static_cast<size_t>(i)];
      const std::string_view references[] = {reference};
      sum += metrics::bleu_statistics(hypothesis, references);
    }
    std::vector<double> counts;
    for (size_t n = 0; n < kOrders; ++n)
      counts.insert(counts.end(),
                    {static_cast<double>(sum.matches[n]), static_cast<double>(sum.totals[n])});
    counts.insert(counts.end(), {static_cast<double>(sum.hypothesis_length),
                                 static_cast<double>(sum.reference_length)});
    return at::tensor(counts, at::kDouble).to(options_.device);
  }
  static double bleu_of(const Tensor& counts) {
    metrics::BleuStatistics sum;
    const auto at = [&](size_t i) {
      return std::llround(counts[static_cast<int64_t>(i)].item<double>());
    };
    for (size_t n = 0; n < kOrders; ++n) {
      sum.matches[n] = at(2 * n);
      sum.totals[n] = at(2 * n + 1);
    }
    sum.hypothesis_length = at(2 * kOrders);
    sum.reference_length = at(2 * kOrders + 1);
    return metrics::bleu_of(sum).score;
  }
  // The text of a row up to its end.
  std::string written(const Tensor& row, int64_t length, const Symbols& symbols) const {
    const auto ids = row.narrow(0, 0, length).contiguous();
    const auto* first = ids.const_data_ptr<int64_t>();
    const bool ended = length > 0 && first[length - 1] == splits_.end;
    return symbols.text({first, static_cast<size_t>(length - (ended ? 1 : 0))});
  }

  void count_exact(const Batch& batch, const Random& random, Tensors& sums) {
    const auto found = decode_greedily(continuation(batch, random), begin(batch), splits_.end,
                                       batch.second.size(1));
    sums["exact"] = (found == batch.second).all(1).sum();
    sums["sequences"] = at::full({}, batch.samples, found.options());
  }
};

}  // namespace

Objective translation_objective() {
  const auto baselines = [](const Splits& splits) {
    return word_baselines(
        splits, splits.second_vocabulary > 0 ? splits.second_vocabulary : splits.vocabulary,
        [](const Sample& sample) { return std::span(sample.second); });
  };
  return objective_of<Translation>(
      {.name = "translation",
       .description = "a target sequence for every source; keys beside model.encoder and "
                      "model.decoder hold for both",
       .command = "translate",
       .sites = {{.name = "encoder",
                  .part = "encoder",
                  .needs = [](const Promises& p) { return p.bidirectional; }},
                 {.name = "decoder",
                  .path = "decoder",
                  .part = "decoder",
                  .needs =
                      [](const Promises& p) { return p.future != Future::refused && p.decode; }},
                 {.name = "cross",
                  .path = "decoder",
                  .part = "decoder",
                  .key = "cross_attention",
                  .needs = [](const Promises& p) { return p.cross && p.decode; }}},
       .baselines = baselines});
}

Decoded translate(Task& task, const Batch& batch, const Random& random) {
  return translate(task, batch, task.decoding(), random);
}

Decoded translate(Task& task, const Batch& batch, const DecodingConfig& decoding,
                  const Random& random) {
  return task.write(batch.to(task.device()), decoding, random);
}

}  // namespace longbow
