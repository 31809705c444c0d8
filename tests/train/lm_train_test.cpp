// Every language model with one mechanism of each kind learns words of a Markov chain, whose
// entropy says what there is to learn.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "longbow/core/file.h"
#include "longbow/train/trainer.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

const MarkovConfig kWords = {.train = 2048,
                             .valid = 64,
                             .test = 128,
                             .words = 8,
                             .followers = 4,
                             .branches = 2,
                             .length = 12};

RunConfig learning(const std::string& objective, const std::string& mechanism,
                   const MarkovConfig& words) {
  RunConfig config = {.task = "markov", .objective = objective};
  config.data.name = "markov";
  config.data.markov = words;
  config.model = parse_yaml("{width: 32, heads: 2, layers: 2, init: xavier}", "model");
  auto& attention = config.model["attention"] = Node::map({{"name", Node::string(mechanism)}});
  if (mechanism == "linformer") attention["rank"] = Node::integer(words.length * 5 / 6);
  if (mechanism == "local") attention["window"] = Node::integer(4);
  config.train.sampler = {.batch_size = 64, .bucket = words.length};
  config.train.loader.threads = 0;
  config.train.log_every = 100;
  config.train.optimizer.learning_rate = 5e-3;
  config.train.schedule.warmup_steps = 20;
  return config;
}

std::vector<nlohmann::json> metrics(const std::string& folder, const std::string& split) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(read_file(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (auto row = nlohmann::json::parse(line); row.at("split") == split) rows.push_back(row);
  return rows;
}

nlohmann::json tested(const RunConfig& config) {
  const auto folder = scratch();
  train(config, {.out = folder, .progress = ProgressStyle::off});
  return metrics(folder, "test").at(0);
}

class LanguageTraining : public testing::TestWithParam<const char*> {};

TEST_P(LanguageTraining, ACausalModelComesNearTheEntropyOfTheChain) {
  auto config = learning("causal_lm", GetParam(), kWords);
  config.train.max_steps = 300;
  const auto entropy = markov_entropy(MarkovChain(kWords, config.data.seed));
  const double best = entropy.loss(kWords.length), loss = tested(config).at("loss").get<double>();
  EXPECT_LT(best + 0.15, entropy.given_one - 0.2) << "more than the last word is needed";
  EXPECT_LT(loss, best + 0.15);
  EXPECT_GT(loss, best - 0.05) << "nobody can, but for the luck of 128 samples";
}

TEST_P(LanguageTraining, AMaskedModelKnowsMoreThanTheWordBefore) {
  auto config = learning("masked_lm", GetParam(), kWords);
  assign(config.model, "positions=sinusoidal");
  assign(config.model, "init=lra");
  config.train.max_steps = 400;
  config.train.optimizer.learning_rate = 1e-2;
  const auto entropy = markov_entropy(MarkovChain(kWords, config.data.seed));
  EXPECT_LT(tested(config).at("loss").get<double>(), entropy.given_one);
}

TEST_P(LanguageTraining, ADetectorFindsReplacedTokens) {
  // Two words of sixteen may follow a word: what a generator without context draws seldom fits.
  auto words = kWords;
  words.words = 16;
  words.followers = words.branches = 2;
  words.length = 8;
  auto config = learning("replaced_tokens", GetParam(), words);
  config.model["generator"] = parse_yaml("{attention: none, layers: 1}", "model");
  config.train.max_steps = 400;
  const auto found = tested(config);
  const double replaced = found.at("replaced").get<double>();
  const double chance = -replaced * std::log(replaced) - (1 - replaced) * std::log(1 - replaced);
  EXPECT_LT(found.at("detector_loss").get<double>(), 0.9 * chance);
  EXPECT_GT(found.at("found").get<double>(), 0.1) << "by chance none is, because most are real";
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, LanguageTraining,
                         testing::Values("softmax", "linear", "linformer", "local"),
                         [](const auto& mechanism) { return mechanism.param; });

struct Interruption {
  const char* objective;
  Precision precision;
};
std::ostream& operator<<(std::ostream& stream, const Interruption& given) {
  return stream << given.objective << " in "
                << names_of(given.precision)[static_cast<size_t>(given.precision)];
}
class LanguageResume : public testing::TestWithParam<Interruption> {};

TEST_P(LanguageResume, AKilledRunGoesOnWithTheSameLosses) {
  auto config = learning(GetParam().objective, "softmax", kWords);
  config.data.markov.train = 96;
  config.data.markov.length_min = 4;
  config.model["block"]["dropout"] = Node::number(0.2);
  config.train.precision = GetParam().precision;
  config.train.sampler = {.batch_size = 8, .bucket = 4};
  config.train.max_steps = 9;
  config.train.log_every = 1;
  const auto folder = scratch();
  const auto run = [&](const std::string& name, bool resume) {
    train(config, {.out = folder + name, .resume = resume, .progress = ProgressStyle::off});
  };
  const auto losses = [&](const std::string& name) {
    std::vector<double> values;
    for (const auto& row : metrics(folder + name, "train"))
      values.push_back(row.at("loss").get<double>());
    return values;
  };
  run("/whole", false);
  config.train.checkpoint_every = 4;
  config.train.keep_checkpoints = 9;
  run("/broken", false);
  for (const auto* gone : {"checkpoints/8", "checkpoints/9", "results.json", "model.safetensors"})
    std::filesystem::remove_all(std::filesystem::path(folder) / "broken" / gone);
  run("/broken", true);
  EXPECT_EQ(losses("/broken").size(), 9u);
  EXPECT_EQ(losses("/broken"), losses("/whole"));
  EXPECT_EQ(metrics(folder + "/broken", "test"), metrics(folder + "/whole", "test"));
  EXPECT_EQ(read_file(folder + "/broken/model.safetensors"),
            read_file(folder + "/whole/model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(Objectives, LanguageResume,
                         testing::Values(Interruption{"causal_lm", Precision::fp32},
                                         Interruption{"causal_lm", Precision::bf16},
                                         Interruption{"masked_lm", Precision::fp32},
                                         Interruption{"masked_lm", Precision::bf16},
                                         Interruption{"replaced_tokens", Precision::fp32},
                                         Interruption{"replaced_tokens", Precision::bf16}));

}  // namespace
}  // namespace longbow
