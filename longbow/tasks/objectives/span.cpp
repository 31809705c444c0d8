#include <ATen/ATen.h>

#include "longbow/data/samples/joined.h"
#include "longbow/data/samples/text_codec.h"
#include "longbow/metrics/answers.h"
#include "longbow/models/heads/span.h"
#include "longbow/tasks/objectives.h"
#include "longbow/tasks/prediction.h"
#include "longbow/tasks/scores.h"

namespace longbow {
namespace {

struct SpanConfig {
  EncoderConfig encoder = {};
  int64_t max_span = 30;
  metrics::AnswerRules answers = metrics::AnswerRules::squad1;
};
template <class V>
void fields(V& v, SpanConfig& c) {
  fields(v, c.encoder);
  v("max_span", c.max_span, "tokens of the longest span that is guessed; 0 = any", at_least(0));
  v("answers", c.answers,
    "how evaluations compare the texts of two spans: F1 over words without articles, or over "
    "characters");
}

// Samples are sequences, or pairs of a question and a context in which the answer stands.
class Span : public TaskOf<SpanConfig, SpanModel> {
 public:
  Span(const Splits& splits, const Config& config, const TaskOptions& options)
      : TaskOf(splits, config, options) {
    model_ = std::make_shared<SpanModel>(config_.encoder, splits_.vocabulary, options.seed);
  }
  static void check_data(const Splits& splits, const Config&, const Node&) {
    if (splits.per_token || splits.train->targets() != 2)
      throw UserError("objective span: the samples do not have a first and a last place",
                      "leave objective out, to take what the data is made for");
  }
  static Splits arranged(const Splits& splits, const Config&) {
    return splits.train->has_second() ? joined(splits, Answers::places) : splits;
  }

  std::vector<Metric> metrics(const Tensors& sums) const override {
    std::vector<Metric> all = {{"exact_match", mean_of(sums, "exact", "count")},
                               {"f1", mean_of(sums, "f1", "count")},
                               {"loss", mean_of(sums, "loss", "weight"), false}};
    if (!sums.contains("text_f1")) return all;
    all.push_back({"text_exact_match", mean_of(sums, "text_exact", "count")});
    all.push_back({"text_f1", mean_of(sums, "text_f1", "count")});
    return all;
  }
  Node model_card() const override {
    return card("longbow_span", {{"vocabulary", splits_.vocabulary}});
  }
  Texts texts() const override {
    return {.read = symbols(),
            .longest = config_.encoder.max_length,
            .frame = has_pairs() ? splits_.frame : Frame(),
            .pairs = has_pairs()};
  }
  // Places are counted from 0, in the context where there is a question before it.
  std::vector<Node> predict(const Batch& batch, const Random& random) override {
    auto context = context_of(batch, random);
    const auto where = answerable(batch);
    const auto logits = (*model_)(batch.tokens, where, context);
    const auto guessed = best_spans(logits, config_.max_span);
    const auto sure = logits.softmax(-1).gather(2, guessed.unsqueeze(2)).squeeze(2).prod(1);
    const auto first = where.to(at::kLong).argmax(1, /*keepdim=*/true);
    const auto answers = [&](int64_t b) {
      const auto& wanted = batch.targets[b];
      return list_of(at::where(wanted == kIgnore, wanted, wanted - first[b]));
    };
    std::vector<Node> all;
    for (int64_t b = 0; b < batch.samples; ++b) {
      const auto places = list_of(guessed[b] - first[b]).items;
      const auto from = guessed[b][0].item<int64_t>(), past = guessed[b][1].item<int64_t>() + 1;
      const auto tokens = batch.tokens[b].narrow(0, from, past - from);
      all.push_back(Node::map(
          {{"answer", Node::string(text_of(tokens, at::scalar_tensor(past - from), symbols()))},
           {"first", places[0]},
           {"last", places[1]},
           {"probability", list_of(sure.narrow(0, b, 1)).items[0]}}));
      if (batch.targets.defined()) all.back()["target"] = answers(b);
    }
    return all;
  }

 private:
  Outcome outcome(const Batch& batch, Context& context) override {
    const auto where = answerable(batch);
    const auto logits = (*model_)(batch.tokens, where, context);  // [B, 2, N]
    const auto answered = (batch.targets != kIgnore).all(1).to(logits.scalar_type());
    const auto loss = (cross_entropy(logits, batch.targets, where).mean(1) * answered).sum();
    const auto guessed = best_spans(logits.detach(), config_.max_span);
    const auto exact = (guessed == batch.targets).all(1).to(at::kDouble);
    const auto count = answered.sum();
    Outcome outcome = {loss,
                       {{"loss", loss.detach()},
                        {"weight", count},
                        {"count", count},
                        {"exact", (exact * answered).sum()},
                        {"f1", (span_f1(guessed, batch.targets) * answered).sum()}}};
    if (splits_.codec && !model_->is_training()) compare_texts(batch, guessed, outcome.sums);
    return outcome;
  }
  // The texts of the spans, as evaluation scripts compare them.
  void compare_texts(const Batch& batch, const Tensor& guessed, Tensors& sums) const {
    const auto tokens = batch.tokens.cpu(), guesses = guessed.cpu(), wanted = batch.targets.cpu();
    const auto text = [&](int64_t b, const Tensor& span) {
      const auto first = span[0].item<int64_t>(), last = span[1].item<int64_t>();
      const auto ids = tokens[b].narrow(0, first, last - first + 1).contiguous();
      return splits_.codec->decode({ids.data_ptr<int64_t>(), static_cast<size_t>(ids.numel())});
    };
    metrics::AnswerSums sum;
    for (int64_t b = 0; b < batch.samples; ++b) {
      if ((wanted[b] == kIgnore).any().item<bool>()) continue;
      const std::vector<std::string> references = {text(b, wanted[b])};
      sum.add(metrics::score_answer(text(b, guesses[b]), references, config_.answers));
    }
    sums["text_exact"] = at::scalar_tensor(sum.exact, at::kDouble);
    sums["text_f1"] = at::scalar_tensor(sum.f1, at::kDouble);
  }
  // [B, N]: real tokens, of the context where there is a question. The end of the frame has the
  // segment of the context, but is none of it.
  Tensor answerable(const Batch& batch) const {
    const auto until = [&](const Tensor& lengths) {
      return Mask::from_lengths(lengths, batch.tokens.size(1)).keep;
    };
    if (!batch.segments.defined()) return until(batch.lengths);
    const int64_t after = splits_.frame.last > 0 ? 1 : 0;
    return until(batch.lengths - after).logical_and(batch.segments == 1);
  }
  // [B, 2] of logits [B, 2, N]; a smoothed target is spread over the context only.
  Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& where) const {
    const auto log_p = logits.log_softmax(-1);
    const auto hard = -log_p.gather(2, targets.clamp_min(0).unsqueeze(2)).squeeze(2);
    const double smoothing = model_->is_training() ? options_.label_smoothing : 0;
    if (smoothing == 0) return hard;
    const auto outside = where.logical_not().unsqueeze(1);
    const auto spread =
        -log_p.masked_fill(outside, 0).sum(2) / where.sum(1, /*keepdim=*/true).clamp_min(1);
    return (1 - smoothing) * hard + smoothing * spread;
  }
};

}  // namespace

Objective span_objective() {
  return objective_of<Span>(
      {.name = "span", .description = "where an answer starts and ends", .bert = BertHead::span});
}

}  // namespace longbow
