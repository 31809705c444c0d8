#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/data/samples/text_codec.h"
#include "longbow/metrics/answers.h"
#include "longbow/models/heads/span.h"
#include "longbow/text/tokenizer/plain_tokenizers.h"
#include "tests/support/tensor.h"
#include "tests/tasks/samples.h"

namespace longbow {
namespace {

const std::vector<Sample> kContexts = {
    {.tokens = {1, 2, 3, 4, 5}, .targets = {1, 2}},
    {.tokens = {6, 7}, .targets = {0, 0}},
    {.tokens = {2, 2, 9}, .targets = {kIgnore, kIgnore}},
};
const std::vector<Sample> kQuestions = {
    {.tokens = {1, 2}, .targets = {1, 2}, .second = {3, 4, 5}},
    {.tokens = {3}, .targets = {0, 0}, .second = {6, 7}},
};
const std::string kModel = "{width: 8, layers: 1, init: xavier, max_length: 8}";

struct Expected {
  double loss = 0, exact = 0, f1 = 0, count = 0;
};

// One sample at a time, over its context only.
Expected by_hand(Task& task, const Batch& batch, double smoothing = 0) {
  Context context = {.mask = Mask::from_lengths(batch.lengths, batch.tokens.size(1))};
  const auto logits = dynamic_cast<SpanModel&>(task.model())(batch.tokens, {}, context).detach();
  Expected sum;
  for (int64_t row = 0; row < batch.samples; ++row) {
    const auto start = batch.targets[row][0].item<int64_t>();
    const auto end = batch.targets[row][1].item<int64_t>();
    if (start == kIgnore) continue;
    auto length = batch.lengths[row].item<int64_t>();
    int64_t from = 0;
    if (batch.segments.defined()) {
      while (batch.segments[row][from].item<int64_t>() == 0) ++from;
      if (task.splits().frame.last > 0) --length;
    }
    const auto own = logits[row].narrow(1, from, length - from);
    const auto log_p = own - own.exp().sum(1, true).log();
    for (const auto& [line, target] : {std::pair{0, start}, std::pair{1, end}})
      sum.loss -= ((1 - smoothing) * log_p[line][target - from].item<double>() +
                   smoothing * log_p[line].mean().item<double>()) /
                  2;
    const auto best = best_spans(own.unsqueeze(0), 30)[0] + from;
    const auto first = best[0].item<int64_t>(), last = best[1].item<int64_t>();
    sum.exact += first == start && last == end;
    double shared = 0;
    for (int64_t at = first; at <= last; ++at) shared += at >= start && at <= end;
    sum.f1 += 2 * shared / static_cast<double>(last - first + 1 + end - start + 1);
    ++sum.count;
  }
  return sum;
}

void expect_by_hand(Task& task, int64_t padded) {
  task.model().eval();
  const auto batch = batch_of(task, padded);
  const auto want = by_hand(task, batch);
  const auto got = task.run(batch, {});
  EXPECT_GT(want.count, 0);
  EXPECT_NEAR(got.loss.item<double>(), want.loss, 1e-5);
  EXPECT_EQ(value_of(got, "weight"), want.count);
  const auto metrics = task.metrics(got.sums);
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_EQ(metrics[0].name, "exact_match");
  EXPECT_DOUBLE_EQ(metrics[0].value, want.exact / want.count);
  EXPECT_EQ(metrics[1].name, "f1");
  EXPECT_NEAR(metrics[1].value, want.f1 / want.count, 1e-12);
  EXPECT_EQ(metrics[2].name, "loss");
  EXPECT_NEAR(metrics[2].value, want.loss / want.count, 1e-5);
}

TEST(Span, SumsTheMeanOfBothCrossEntropies) {
  for (const uint64_t seed : {1, 2, 3}) {
    const auto task = made("span", splits_of(kContexts), kModel, {.seed = seed});
    expect_by_hand(*task, 7);
  }
}

TEST(Span, OfAPairStandsInTheSecondSequence) {
  for (const uint64_t seed : {1, 2, 3}) {
    const auto task = made("span", splits_of(kQuestions), kModel, {.seed = seed});
    EXPECT_EQ(batch_of(*task, 6).targets[0][0].item<int64_t>(), 2 + 1 + 1);
    expect_by_hand(*task, 6);
  }
}

// [CLS] question [SEP] context [SEP]: the last token is none of the context.
Splits framed_questions() {
  auto splits = splits_of(kQuestions);
  splits.frame = {8, 9};
  return splits;
}

TEST(Span, EndsBeforeTheFrame) {
  for (const uint64_t seed : {1, 2, 3}) {
    const auto task = made("span", framed_questions(), kModel, {.seed = seed});
    const auto batch = batch_of(*task, 8);
    EXPECT_EQ(batch.tokens[0][7].item<int64_t>(), 9);
    EXPECT_EQ(batch.targets[0][0].item<int64_t>(), 1 + 2 + 1 + 1);
    expect_by_hand(*task, 8);
  }
}

TEST(Span, SmoothedTargetsCountInTrainingOnlyAndInTheContextOnly) {
  for (const auto& splits : {splits_of(kQuestions), framed_questions()}) {
    const auto task = made("span", splits, kModel, {.label_smoothing = 0.3});
    const auto batch = batch_of(*task, 8);
    EXPECT_NEAR(task->run(batch, {}).loss.item<double>(), by_hand(*task, batch, 0.3).loss, 1e-5);
    task->model().eval();
    EXPECT_NEAR(task->run(batch, {}).loss.item<double>(), by_hand(*task, batch).loss, 1e-5);
  }
}

TEST(Span, GuessesNoLongerSpansThanItMay) {
  const auto task = made("span", splits_of({{.tokens = {1, 2, 3}, .targets = {0, 2}}}),
                         "{width: 8, layers: 1, max_span: 2}");
  EXPECT_EQ(value_of(task->run(batch_of(*task, 3), {}), "exact"), 0);
  EXPECT_EQ(task->model_config().find("max_span")->text, "2");
}

TEST(Span, WantsAFirstAndALastPlace) {
  EXPECT_EQ(error_of([] { made("span", splits_of({{.tokens = {1}, .targets = {0}}}, 2), kModel); }),
            "objective span: the samples do not have a first and a last place; leave objective "
            "out, to take what the data is made for");
}

TEST(Span, EvaluationsCompareTheTextsToo) {
  auto splits = splits_of(kQuestions);
  const auto codec = std::make_shared<TextCodec>(
      character_tokenizer("abcdefghij", {"[PAD]", "[UNK]", "[SEP]"}, "[UNK]"));
  splits.codec = codec;
  splits.vocabulary = codec->vocabulary();
  splits.symbols = codec->symbols();
  const auto task = made("span", splits, kModel);
  const auto batch = batch_of(*task, 8);
  task->model().train();
  EXPECT_FALSE(task->run(batch, {}).sums.contains("text_f1"));
  task->model().eval();
  const auto got = task->run(batch, {});
  const auto predictions = task->predict(batch, {});
  metrics::AnswerSums want;
  for (int64_t b = 0; b < 2; ++b) {
    const auto from = batch.targets[b][0].item<int64_t>(),
               last = batch.targets[b][1].item<int64_t>();
    std::vector<int64_t> ids;
    for (auto at = from; at <= last; ++at) ids.push_back(batch.tokens[b][at].item<int64_t>());
    const std::vector<std::string> references = {codec->decode(ids)};
    want.add(metrics::score_answer(
        as_string(*predictions[static_cast<size_t>(b)].find("answer"), "answer"), references,
        metrics::AnswerRules::squad1));
  }
  EXPECT_EQ(value_of(got, "text_exact"), want.exact);
  EXPECT_NEAR(value_of(got, "text_f1"), want.f1, 1e-12);
  const auto metrics = task->metrics(got.sums);
  ASSERT_EQ(metrics.size(), 5u);
  EXPECT_EQ(metrics[3].name, "text_exact_match");
  EXPECT_EQ(metrics[4].name, "text_f1");
  EXPECT_NEAR(metrics[4].value, want.mean().f1, 1e-12);
}

}  // namespace
}  // namespace longbow
