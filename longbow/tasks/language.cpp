#include "longbow/tasks/language.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "longbow/data/samples/text_codec.h"
#include "longbow/metrics/likelihood.h"

namespace longbow {

Outcome language_loss(const Tensor& logits, const Tensor& targets, int64_t samples,
                      const TaskOptions& options, bool training) {
  auto outcome = classification_loss(logits, targets, samples, options, training);
  auto& nats = outcome.sums["nats"] = outcome.sums.at("loss");
  if (options.normalise == Normalise::targets && !(training && options.label_smoothing > 0))
    return outcome;
  const at::NoGradGuard no_grad;
  const auto rows = logits.detach().flatten(0, -2);
  nats = at::cross_entropy_loss(rows.to(wide(rows)), targets.flatten(), {}, at::Reduction::Sum,
                                kIgnore);
  return outcome;
}

void check_end(int64_t end, const Splits& splits, const Node& model) {
  if (end < splits.vocabulary) return;
  throw UserError(model.place_of("end"),
                  "model.end is " + std::to_string(end) + ", but the data has " +
                      std::to_string(splits.vocabulary) + " tokens",
                  "lower it");
}

Texts continued_texts(const Splits& splits, const Symbols& symbols, int64_t max_length,
                      int64_t end) {
  const bool plain = !splits.train->has_second();
  const auto own = plain && splits.end > 0 ? splits.end : splits.frame.last;
  return {.read = symbols,
          .written = symbols,
          .longest = max_length,
          .holds = max_length,
          .begin = plain ? splits.begin : 0,
          .end = end > 0 ? end : own,
          .frame = {.first = splits.frame.first}};
}

Decoded continued(const Continuation& model, const Batch& batch, const Texts& texts,
                  const DecodingConfig& how, const Random& random) {
  Prompt prompt = {batch.tokens};
  if (batch.padded) prompt.keep = Mask::from_lengths(batch.lengths, batch.tokens.size(1)).keep;
  // Neither padding nor a beginning, which no text holds.
  return decode(without(model, {0, texts.begin, texts.frame.first}), prompt,
                texts.end > 0 ? texts.end : -1, how, random);
}

Tensor next_tokens(const Tensor& tokens, const Tensor& lengths) {
  const auto place = at::arange(1, tokens.size(1) + 1, lengths.options()).unsqueeze(0);
  return tokens.roll(-1, 1).masked_fill(place >= lengths.unsqueeze(1), kIgnore);
}

TextLengths::TextLengths(const Splits& splits, at::Device device) {
  if (!splits.codec) return;
  const auto traits = splits.codec->traits();
  const auto table = [&](const auto& value) {
    auto values = at::zeros({std::max(splits.vocabulary, std::ssize(traits))}, at::kDouble);
    for (size_t id = 0; id < traits.size(); ++id)
      values.data_ptr<double>()[id] = static_cast<double>(value(traits[id]));
    return values.to(device);
  };
  // The end of a line or a document is a word, as word-level benchmarks count it.
  words_ = table([](const TokenTraits& t) { return t.special || t.begins || t.ends ? 1 : 0; });
  bytes_ = table([](const TokenTraits& t) { return t.bytes; });
}

void TextLengths::count(const Tensor& targets, Tensors& sums) const {
  if (!words_.defined()) return;
  const auto ids = targets.flatten();
  const auto real = ids != kIgnore;
  const auto sum = [&](const Tensor& table) {
    return (table.index_select(0, ids.clamp_min(0)) * real).sum();
  };
  sums["words"] = sum(words_);
  sums["bytes"] = sum(bytes_);
}

std::vector<Metric> word_metrics(const Tensors& sums) {
  const double nats = mean_of(sums, "nats", "count");
  std::vector<Metric> all = {{"perplexity", std::exp(nats), false},
                             {"loss", mean_of(sums, "loss", "weight"), false},
                             {"bits_per_token", nats / std::numbers::ln2, false},
                             {"accuracy", mean_of(sums, "correct", "count")}};
  if (!sums.contains("bytes")) return all;
  const auto whole = [&](const char* name) { return static_cast<int64_t>(sum_of(sums, name)); };
  const metrics::LikelihoodSums text = {.negative_log_likelihood = sum_of(sums, "nats"),
                                        .tokens = whole("count"),
                                        .words = whole("words"),
                                        .bytes = whole("bytes")};
  if (text.words > 0) all.push_back({"word_perplexity", metrics::perplexity_per_word(text), false});
  if (text.bytes > 0) all.push_back({"bits_per_byte", metrics::bits_per_byte(text), false});
  return all;
}

}  // namespace longbow
