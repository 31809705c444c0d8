// Encoder-decoders with different mechanisms learn to reverse short sources.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "longbow/core/file.h"
#include "longbow/tasks/translation.h"
#include "longbow/train/trainer.h"
#include "tests/support/tensor.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

RunConfig reversal(const std::string& encoder, const std::string& decoder,
                   const std::string& cross) {
  RunConfig config = {.task = "reverse", .objective = "translation"};
  config.data.name = "reverse";
  config.data.reverse = {
      .train = 2000, .valid = 64, .test = 64, .symbols = 5, .length = 5, .length_min = 3};
  config.model =
      parse_yaml("{encoder: {width: 32, layers: 1, init: xavier, attention: " + encoder +
                     "}, decoder: {width: 32, layers: 1, init: xavier, attention: " + decoder +
                     ", cross_attention: " + cross + "}, exact_match: true}",
                 "model");
  config.train.max_steps = 300;
  config.train.sampler = {.batch_size = 32, .bucket = 6};
  config.train.loader.threads = 0;
  config.train.log_every = 10;
  config.train.optimizer.learning_rate = 5e-3;
  config.train.schedule.warmup_steps = 20;
  return config;
}

Result run(const RunConfig& config, const std::string& out, bool resume = false) {
  return train(config, {.out = out, .resume = resume, .progress = ProgressStyle::off});
}

std::vector<json> metrics(const std::string& folder, const std::string& split) {
  std::vector<json> rows;
  std::istringstream lines(read_file(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (auto row = json::parse(line); row.at("split") == split) rows.push_back(row);
  return rows;
}

std::vector<double> losses(const std::string& folder) {
  std::vector<double> values;
  for (const auto& row : metrics(folder, "train")) values.push_back(row.at("loss").get<double>());
  return values;
}

struct Kind {
  std::string name, encoder, decoder, cross;
  double loss;  // to be reached on the test split
};
class Seq2SeqTraining : public testing::TestWithParam<Kind> {};

TEST_P(Seq2SeqTraining, LearnsToReverse) {
  const auto& kind = GetParam();
  const auto folder = scratch();
  const auto result = run(reversal(kind.encoder, kind.decoder, kind.cross), folder);
  EXPECT_GT(losses(folder).front(), 1.5) << "log 5 at the start";
  const auto test = metrics(folder, "test").at(0);
  EXPECT_LT(test.at("loss").get<double>(), kind.loss);
  EXPECT_EQ(result.metric, "perplexity");
  EXPECT_NEAR(result.score, std::exp(test.at("loss").get<double>()), 1e-6);
  EXPECT_GT(test.at("exact_match").get<double>(), 0.9) << "chance is 5^-4";
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, Seq2SeqTraining,
                         testing::Values(Kind{"softmax", "softmax", "softmax", "softmax", 0.03},
                                         Kind{"linear", "linear", "linear", "linear", 0.03},
                                         Kind{"linformer", "{name: linformer, rank: 6}", "softmax",
                                              "{name: linformer, rank: 6}", 0.03},
                                         Kind{"local", "{name: local, window: 3}",
                                              "{name: local, window: 3}", "softmax", 0.03}),
                         [](const auto& info) { return info.param.name; });

TEST(Translation, AnInterruptedRunGoesOnWithTheSameLosses) {
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    const auto folder = scratch();
    auto config = reversal("linear", "softmax", "{name: linformer, rank: 4}");
    config.data.reverse.train = 96;
    config.train.precision = precision;
    config.train.label_smoothing = 0.1;
    config.train.max_steps = 12;
    config.train.log_every = 1;
    for (const auto* part : {"encoder", "decoder"})
      config.model[part]["block"]["dropout"] = Node::number(0.2);
    run(config, folder + "/whole");
    config.train.checkpoint_every = 5;
    config.train.keep_checkpoints = 9;
    run(config, folder + "/broken");
    fs::remove_all(folder + "/broken/checkpoints/12");  // as if killed between steps 5 and 10
    fs::remove_all(folder + "/broken/checkpoints/10");
    fs::remove(folder + "/broken/results.json");
    run(config, folder + "/broken", true);
    EXPECT_EQ(losses(folder + "/broken"), losses(folder + "/whole"));
    EXPECT_EQ(losses(folder + "/whole").size(), 12u);
    EXPECT_LT(losses(folder + "/whole").back(), losses(folder + "/whole").front());
    EXPECT_EQ(read_file(folder + "/broken/model.safetensors"),
              read_file(folder + "/whole/model.safetensors"));
  }
}

TEST(Translation, AFinishedRunIsOpenedAndTranslates) {
  const auto folder = scratch();
  auto config = reversal("softmax", "softmax", "softmax");
  config.train.max_steps = 20;
  run(config, folder);
  const auto opened = open_run(folder, at::kCPU);
  opened.task->model().eval();
  const auto batch = collate(*opened.task->splits().test, {.indices = {0, 1}, .padded_length = 6});
  const auto got = translate(*opened.task, batch);
  EXPECT_EQ(got.tokens.sizes(), (std::vector<int64_t>{2, 1, 6}));
  const auto beams = translate(*opened.task, batch, {.method = DecodingMethod::beam, .beams = 1});
  EXPECT_NEAR_TENSOR(beams.tokens, got.tokens, kExact);
}

}  // namespace
}  // namespace longbow
