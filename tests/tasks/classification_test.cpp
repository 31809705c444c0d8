#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/models/heads/classifier.h"
#include "longbow/tasks/task.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

DataConfig tiny_recall() {
  DataConfig data = {.name = "recall"};
  data.options = parse_yaml(
      "{train: 12, valid: 4, test: 4, keys: 6, values: 3, pairs: 4, pairs_min: 2, queries: 3}",
      "options");
  return data;
}

DataConfig tiny_listops() {
  DataConfig data = {.name = "listops"};
  data.options =
      parse_yaml("{train: 20, valid: 4, test: 4, min_length: 3, max_length: 20}", "options");
  return data;
}

std::unique_ptr<Task> made(const DataConfig& data, const TaskOptions& options = {.bucket = 4},
                           const std::string& model = "{width: 8, layers: 1, init: xavier}") {
  return find_objective("classification")
      .make(load_data(data), parse_yaml(model, "model"), options);
}

int64_t longest(const Task& task) {
  return as_integer(*task.model_config().find("max_length"), "max_length");
}

Tensor logits_of(Task& task, const Batch& batch) {
  Context context = {.mask = Mask::from_lengths(batch.lengths, batch.tokens.size(1))};
  return dynamic_cast<Classifier&>(task.model())(batch.tokens, context);
}

int64_t integer(const Outcome& outcome, const std::string& name) {
  return outcome.sums.at(name).item<int64_t>();
}

Batch first_samples(const Dataset& data, int64_t count, int64_t padded) {
  Plan plan = {.padded_length = padded};
  for (int64_t i = 0; i < count; ++i) plan.indices.push_back(i);
  return collate(data, plan);
}

struct Expected {
  double loss = 0;
  int64_t correct = 0, count = 0;
};

// Cross-entropy and accuracy, one target at a time.
Expected by_hand(const Tensor& logits, const Tensor& targets) {
  Expected sum;
  const auto rows = logits.detach().to(at::kDouble).flatten(0, -2);
  const auto wanted = targets.flatten();
  for (int64_t i = 0; i < wanted.size(0); ++i) {
    const auto target = wanted[i].item<int64_t>();
    if (target == kIgnore) continue;
    double normaliser = 0, best = -1e300;
    int64_t guess = 0;
    for (int64_t c = 0; c < rows.size(1); ++c) {
      const double logit = rows[i][c].item<double>();
      normaliser += std::exp(logit);
      if (logit > best) guess = c;
      best = std::max(best, logit);
    }
    sum.loss += std::log(normaliser) - rows[i][target].item<double>();
    sum.correct += guess == target;
    ++sum.count;
  }
  return sum;
}

void expect_by_hand(const DataConfig& data) {
  const auto task = made(data);
  task->model().eval();
  const auto batch = first_samples(*task->splits().train, 6, longest(*task));
  const auto want = by_hand(logits_of(*task, batch), batch.targets);
  const auto got = task->run(batch, {});
  EXPECT_NEAR(got.loss.item<double>(), want.loss, 1e-4);
  EXPECT_EQ(integer(got, "correct"), want.correct);
  EXPECT_EQ(integer(got, "count"), want.count);
  EXPECT_GT(want.count, 0);
  const auto metrics = task->metrics(got.sums);
  EXPECT_EQ(metrics[0].name, "accuracy");
  EXPECT_DOUBLE_EQ(metrics[0].value,
                   static_cast<double>(want.correct) / static_cast<double>(want.count));
  EXPECT_EQ(metrics[1].name, "macro_f1");
  EXPECT_NEAR(metrics[2].value, want.loss / static_cast<double>(want.count), 1e-4);
}

TEST(Classification, SumsCrossEntropyAndHitsOfOneClassPerSequence) {
  expect_by_hand(tiny_listops());
}

TEST(Classification, CountsOnlyMarkedTokens) {
  expect_by_hand(tiny_recall());
  const auto task = made(tiny_recall());
  const auto batch = first_samples(*task->splits().train, 6, longest(*task));
  EXPECT_EQ(integer(task->run(batch, {}), "count"), 6 * 3);
  EXPECT_GT(batch.tokens.numel(), 6 * 3);
}

TEST(Classification, NormalisedBySamplesARowWithFewerTargetsWeighsTheSame) {
  const auto task = made(tiny_recall(), {.bucket = 4, .normalise = Normalise::samples});
  task->model().eval();
  auto batch = first_samples(*task->splits().train, 3, longest(*task));
  const auto marked = (batch.targets[0] != kIgnore).nonzero().flatten();
  batch.targets[0].index_fill_(0, marked.narrow(0, 0, 2), kIgnore);  // one of three is left
  const auto logits = logits_of(*task, batch);
  double want = 0;
  for (int64_t row = 0; row < 3; ++row) {
    const auto one = by_hand(logits.narrow(0, row, 1), batch.targets.narrow(0, row, 1));
    want += one.loss / static_cast<double>(one.count);
  }
  const auto got = task->run(batch, {});
  EXPECT_NEAR(got.loss.item<double>(), want, 1e-4);
  EXPECT_EQ(integer(got, "weight"), 3);
}

TEST(Classification, TheDataDecidesLengthAndPooling) {
  const auto pooling = [](const Task& task) {
    return as_string(*task.model_config().find("pooling"), "pooling");
  };
  const auto tokens = made(tiny_recall(), {.bucket = 8});
  EXPECT_EQ(tokens->splits().max_length, 2 * 4 + 1 + 3);
  EXPECT_EQ(longest(*tokens), 16) << "a multiple of the bucket";
  EXPECT_EQ(pooling(*tokens), "none");
  const auto sequences = made(tiny_listops(), {.bucket = 8});
  EXPECT_EQ(pooling(*sequences), "mean");
  int64_t count = 0;
  for (const auto& parameter : sequences->model().parameters()) count += parameter.numel();
  EXPECT_EQ(sequences->parameter_count(), count);
}

TEST(Classification, SmoothedTargetsCountInTrainingOnly) {
  const auto task = made(tiny_listops(), {.bucket = 4, .label_smoothing = 0.3});
  const auto batch = first_samples(*task->splits().train, 6, longest(*task));
  const auto logits = logits_of(*task, batch).log_softmax(-1);
  const auto hard = -logits.gather(1, batch.targets.unsqueeze(1)).sum();
  const auto want = 0.7 * hard - 0.3 * logits.mean(-1).sum();
  EXPECT_NEAR(task->run(batch, {}).loss.item<double>(), want.item<double>(), 1e-4);
  task->model().eval();
  EXPECT_NEAR(task->run(batch, {}).loss.item<double>(), hard.item<double>(), 1e-4);
}

TEST(Classification, WeightsCanBeChosenByMacroF1) {
  const auto task = made(tiny_recall(), {.bucket = 4}, "{width: 8, layers: 1, metric: macro_f1}");
  const auto batch = first_samples(*task->splits().train, 6, longest(*task));
  EXPECT_FALSE(task->run(batch, {}).sums.contains("tallies")) << "not while training";
  task->model().eval();
  const auto metrics = task->metrics(task->run(batch, {}).sums);
  EXPECT_EQ(metrics[0].name, "macro_f1");
  EXPECT_EQ(metrics[1].name, "accuracy");
}

TEST(Classification, AModelThatIsTooShortIsAMistake) {
  EXPECT_EQ(
      error_of([&] { made(tiny_recall(), {.bucket = 4}, "{width: 8, max_length: 8}"); }),
      "model:1: model.max_length is 8, but the data has sequences of up to 12 padded tokens; raise "
      "it, or cut the data with data.max_tokens");
}

// The 12 padded tokens of the data are known only when it has been read.
TEST(Classification, OptionsAreCheckedAgainWithTheLengthOfTheData) {
  EXPECT_EQ(error_of([&] {
              made(tiny_recall(), {.bucket = 4},
                   "{width: 8, attention: {name: linformer,\nrank: 13}}");
            }),
            "model:2: linformer.rank is 13, but max_length is 12; lower rank");
  EXPECT_EQ(error_of([&] {
              made(tiny_recall(), {.bucket = 4},
                   "{width: 8, positions: axial,\naxial: {rows: 2, columns: 5}}");
            }),
            "model:2: 2 x 5 axial positions are fewer than max_length 12; raise axial.rows or "
            "axial.columns");
}

TEST(MechanismLabel, NamesTheMechanismsOfAListOnce) {
  EXPECT_EQ(mechanism_label(parse_yaml("{layers: 3, attention: [{name: fnet, layers: 0-1}, {name: "
                                       "softmax, layers: 2}]}",
                                       "x")),
            "fnet+softmax");
  EXPECT_EQ(mechanism_label(Node::map()), "softmax");
}

TEST(Classification, TheModelReadsTheSegmentsOfABatch) {
  const auto loss = [](const std::string& segments, int64_t of_all) {
    const auto task = made(tiny_listops(), {.bucket = 4},
                           "{width: 8, layers: 1, init: xavier, segments: " + segments + "}");
    task->model().eval();
    auto batch = first_samples(*task->splits().train, 6, longest(*task));
    batch.segments = at::full_like(batch.tokens, of_all);
    return task->run(batch, {}).loss.item<double>();
  };
  EXPECT_NE(loss("2", 1), loss("2", 0));
  EXPECT_EQ(loss("0", 1), loss("0", 0));
}

}  // namespace
}  // namespace longbow
