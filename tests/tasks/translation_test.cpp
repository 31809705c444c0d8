#include "longbow/tasks/objectives/translation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/metrics/bleu.h"
#include "longbow/models/decoder/seq2seq.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

const std::string kModel =
    "{encoder: {width: 8, layers: 1, init: xavier}, decoder: {width: 8, layers: 1, init: xavier}}";

DataConfig tiny() {
  DataConfig data = {.name = "reverse"};
  data.options =
      parse_yaml("{train: 12, valid: 4, test: 4, symbols: 4, length: 6, length_min: 2}", "options");
  return data;
}

std::unique_ptr<Task> made(const TaskOptions& options = {.bucket = 4},
                           const std::string& model = kModel) {
  return find_objective("translation")
      .make(load_data(tiny()), parse_yaml(model, "m.yaml"), options);
}

Batch samples(const Task& task, int64_t first, int64_t count) {
  Plan plan = {.padded_length = 8};
  for (int64_t i = first; i < first + count; ++i) plan.indices.push_back(i);
  return collate(*task.splits().train, plan);
}

// One sample alone, without padding: log-probabilities [tokens, V] of what follows a prefix.
Tensor log_probabilities(Task& task, const Sample& sample) {
  std::vector<int64_t> source(sample.tokens.begin(), sample.tokens.end()), target = {1};
  target.insert(target.end(), sample.second.begin(), sample.second.end() - 1);
  Context context;
  return dynamic_cast<Seq2Seq&>(task.model())(at::tensor(source, at::kLong).unsqueeze(0), {},
                                              at::tensor(target, at::kLong).unsqueeze(0), context)
      .detach()
      .to(at::kDouble)
      .log_softmax(-1)[0];
}

struct Expected {
  double loss = 0, smoothed = 0, mean_loss = 0;
  int64_t correct = 0, count = 0;
};
Expected by_hand(Task& task, int64_t first, int64_t count, double smoothing = 0) {
  Expected sum;
  for (int64_t i = first; i < first + count; ++i) {
    const auto sample = task.splits().train->get(i);
    const auto rows = log_probabilities(task, sample);
    double own = 0;
    for (int64_t t = 0; t < std::ssize(sample.second); ++t) {
      const auto word = sample.second[static_cast<size_t>(t)];
      own -= rows[t][word].item<double>();
      sum.smoothed += -(1 - smoothing) * rows[t][word].item<double>() -
                      smoothing * rows[t].mean().item<double>();
      sum.correct += rows[t].argmax().item<int64_t>() == word;
      ++sum.count;
    }
    sum.loss += own;
    sum.mean_loss += own / static_cast<double>(sample.second.size());
  }
  return sum;
}

double value(const std::vector<Metric>& metrics, const std::string& name) {
  for (const auto& metric : metrics)
    if (metric.name == name) return metric.value;
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

TEST(Translation, SumsTheCrossEntropyOfEveryTargetTokenAndItsEnd) {
  const auto task = made();
  task->model().eval();
  const auto got = task->run(samples(*task, 0, 5), {});
  const auto want = by_hand(*task, 0, 5);
  EXPECT_NEAR(got.loss.item<double>(), want.loss, 1e-4);
  EXPECT_EQ(got.sums.at("count").item<int64_t>(), want.count);
  EXPECT_EQ(got.sums.at("correct").item<int64_t>(), want.correct);
  EXPECT_EQ(got.sums.at("weight").item<int64_t>(), want.count);
  const auto metrics = task->metrics(got.sums);
  EXPECT_EQ(metrics.front().name, "perplexity");
  EXPECT_FALSE(metrics.front().larger_is_better);
  EXPECT_DOUBLE_EQ(value(metrics, "accuracy"),
                   static_cast<double>(want.correct) / static_cast<double>(want.count));
}

TEST(Translation, ThePerplexityIsThatOfAllTokensOfTheCorpus) {
  for (const auto normalise : {Normalise::targets, Normalise::samples}) {
    const auto task = made({.bucket = 4, .normalise = normalise});
    task->model().eval();
    Tensors sums;
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {1, 7}})
      for (const auto& [name, term] : task->run(samples(*task, first, count), {}).sums)
        sums[name] = sums.count(name) ? sums.at(name) + term : term;
    const auto want = by_hand(*task, 0, 8);
    EXPECT_NEAR(value(task->metrics(sums), "perplexity"),
                std::exp(want.loss / static_cast<double>(want.count)), 1e-4);
    EXPECT_NEAR(value(task->metrics(sums), "loss"),
                normalise == Normalise::targets ? want.loss / static_cast<double>(want.count)
                                                : want.mean_loss / 8,
                1e-5);
  }
}

TEST(Translation, SmoothsLabelsInTrainingButNotThePerplexity) {
  const auto task = made({.bucket = 4, .label_smoothing = 0.3});
  const auto batch = samples(*task, 0, 4);
  const auto got = task->run(batch, {});
  const auto want = by_hand(*task, 0, 4, 0.3);
  EXPECT_NEAR(got.loss.item<double>(), want.smoothed, 1e-4);
  EXPECT_NEAR(value(task->metrics(got.sums), "perplexity"),
              std::exp(want.loss / static_cast<double>(want.count)), 1e-4);
  EXPECT_GT(std::abs(want.smoothed - want.loss), 0.01);
  task->model().eval();
  EXPECT_NEAR(task->run(batch, {}).loss.item<double>(), want.loss, 1e-4);
}

TEST(Translation, CountsTheTargetsThatGreedyDecodingGetsRight) {
  auto text = kModel;
  const auto task = made({.bucket = 4}, text.insert(1, "exact_match: true, "));
  const auto batch = samples(*task, 0, 6);
  EXPECT_FALSE(task->run(batch, {}).sums.count("sequences")) << "in evaluations only";
  task->model().eval();
  // What the model writes becomes the target of the first four; the others keep theirs.
  const auto written = translate(*task, batch, {.max_length = 8});
  auto chosen = batch;
  chosen.second = batch.second.clone();
  chosen.second_lengths = batch.second_lengths.clone();
  chosen.second.narrow(0, 0, 4).copy_(written.tokens.select(1, 0).narrow(0, 0, 4));
  chosen.second_lengths.narrow(0, 0, 4).copy_(written.lengths.select(1, 0).narrow(0, 0, 4));
  const auto sums = task->run(chosen, {}).sums;
  EXPECT_EQ(sums.at("sequences").item<int64_t>(), 6);
  EXPECT_EQ(sums.at("exact").item<int64_t>(), 4);
  EXPECT_NEAR(value(task->metrics(sums), "exact_match"), 4.0 / 6, 1e-12);
}

TEST(Translation, DecodesAsTheConfigSays) {
  auto text = kModel;
  const auto task =
      made({.bucket = 4}, text.insert(1, "decoding: {method: beam, beams: 3, n_best: 2}, "));
  task->model().eval();
  const auto got = translate(*task, samples(*task, 0, 5));
  EXPECT_EQ(got.tokens.sizes(), (std::vector<int64_t>{5, 2, 8})) << "as long as the model holds";
  EXPECT_TRUE((got.scores.select(1, 0) >= got.scores.select(1, 1)).all().item<bool>());
}

TEST(Translation, SpellsItsModelOut) {
  const auto task = made();
  const auto config = task->model_config();
  EXPECT_EQ(as_integer(*config.find("encoder")->find("max_length"), ""), 8);
  EXPECT_EQ(as_string(*config.find("decoder")->find("cross_attention")->find("name"), ""),
            "softmax");
  const auto again = find_objective("translation").make(load_data(tiny()), config, {.bucket = 4});
  EXPECT_EQ(to_yaml(again->model_config()), to_yaml(config));
  EXPECT_EQ(as_integer(*task->model_card().find("target_vocabulary"), ""), 3 + 4);
}

std::string refused(const std::string& text) {
  return error_of([&] { made({.bucket = 4}, text); });
}

TEST(Translation, RefusesWhatDoesNotFitTheData) {
  EXPECT_EQ(refused("{encoder: {width: 8}, decoder: {width: 8},\ntie: all}"),
            "m.yaml:2: tie all needs one vocabulary, but the source has 5 entries and the target "
            "7; set tie to output");
  DataConfig data = {.name = "recall"};
  data.options = parse_yaml("{train: 4, valid: 4, test: 4}", "options");
  EXPECT_EQ(error_of([&] {
              find_objective("translation")
                  .make(load_data(data), parse_yaml(kModel, "m.yaml"), {.bucket = 4});
            }),
            "m.yaml:1: the data has no target sequences; translation needs pairs with ids that "
            "begin and end a target");
  const auto check = [](const std::string& text) {
    return error_of([&] { find_objective("translation").check(parse_yaml(text, "m.yaml")); });
  };
  EXPECT_EQ(check("decoding:\n  n_best: 2"),
            "m.yaml:2: greedy decoding finds one text, not 2; set method to beam or sample");
  EXPECT_EQ(check("decoder: {atention: linear}"),
            "m.yaml:1: unknown key 'atention'; did you mean 'attention'?");
}

TEST(Translation, IsLabelledByAllItsMechanisms) {
  EXPECT_EQ(mechanism_label(parse_yaml("{encoder: {attention: fnet}, decoder: {attention: "
                                       "linear, cross_attention: linformer}}",
                                       "m")),
            "fnet+linear+linformer");
  EXPECT_EQ(mechanism_label(parse_yaml("{decoder: {layers: 1, attention: linear}}", "m")),
            "softmax+linear");
}

TEST(Translation, WhatEvaluationsWriteMustFit) {
  auto text = kModel;
  text.insert(1, "metric: bleu, decoding: {max_length: 9}, ");
  EXPECT_EQ(error_of([&] { (void)made({.bucket = 4}, text); }),
            "m.yaml:1: model.decoding.max_length is 9, but the decoder holds 8; lower it, or raise "
            "model.decoder.max_length");
}

TEST(Translation, BleuIsThatOfTheWrittenTexts) {
  auto text = kModel;
  const auto task =
      made({.bucket = 4}, text.insert(1, "metric: bleu, decoding: {max_length: 8}, "));
  task->model().eval();
  Tensors sums;
  std::vector<std::string> hypotheses;
  std::vector<std::vector<std::string>> references(1);
  const auto symbols = task->texts().written;
  const auto random = Random::from_seed(1, 0);
  for (const int64_t first : {0, 6}) {
    const auto batch = samples(*task, first, 6);
    for (const auto& [name, value] : task->run(batch, random).sums)
      sums[name] = sums.count(name) ? sums[name] + value : value;
    const auto decoded = translate(*task, batch, random);
    for (int64_t i = 0; i < 6; ++i) {
      const auto shown = [&](const Tensor& row, int64_t length) {
        const auto ids = row.narrow(0, 0, length).contiguous();
        const auto* at = ids.const_data_ptr<int64_t>();
        const bool ended = at[length - 1] == task->splits().end;
        return symbols.text({at, static_cast<size_t>(length - (ended ? 1 : 0))});
      };
      hypotheses.push_back(shown(decoded.tokens[i][0], decoded.lengths[i][0].item<int64_t>()));
      references[0].push_back(shown(batch.second[i], batch.second_lengths[i].item<int64_t>()));
    }
  }
  const auto metrics = task->metrics(sums);
  EXPECT_EQ(metrics[0].name, "bleu");
  EXPECT_TRUE(metrics[0].larger_is_better);
  EXPECT_GT(metrics[0].value, 0);
  EXPECT_NEAR(metrics[0].value, metrics::corpus_bleu(hypotheses, references).score, 1e-9);
}

}  // namespace
}  // namespace longbow
