#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "longbow/models/perceiver/perceiver_ar.h"
#include "longbow/tasks/language.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

DataConfig uneven() {
  DataConfig data = {.name = "markov"};
  data.options = parse_yaml(
      "{train: 6, valid: 4, test: 4, words: 8, followers: 4, branches: 2, length: 12, length_min: "
      "2}",
      "options");
  return data;
}

std::unique_ptr<Task> made(const std::string& more = "") {
  const auto model = "{width: 8, latents: 4" + more + "}";
  return find_objective("perceiver_ar")
      .make(load_data(uneven()), parse_yaml(model, "m.yaml"), {.bucket = 3});
}

Batch all_of(const Dataset& data, int64_t padded) {
  Plan plan = {.padded_length = padded};
  for (int64_t i = 0; i < data.size(); ++i) plan.indices.push_back(i);
  return collate(data, plan);
}

Tensor tokens_of(const Dataset& data, int64_t index) {
  const auto sample = data.get(index);
  return at::tensor(std::vector<int64_t>(sample.tokens.begin(), sample.tokens.end()), at::kLong);
}

// An evaluation predicts every token, from those before it in blocks of latents.
TEST(PerceiverArObjective, AnEvaluationSumsWhatEachTokenAloneWouldLose) {
  const auto task = made();
  task->model().eval();
  auto& model = dynamic_cast<PerceiverAr&>(task->model());
  const auto& data = *task->splits().train;
  double want = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto tokens = tokens_of(data, i);
    for (int64_t t = 1; t < tokens.size(0); ++t, ++count) {
      Context context;  // only the tokens before, so nothing later can be seen
      const auto text = tokens.narrow(0, 0, t).unsqueeze(0);
      const auto first = at::full({1}, (t - 1) / 4 * 4, at::kLong);
      const auto rows = model(text, t > 4 ? first : Tensor(), context);
      const auto logits = rows.logits[0][(t - 1) % 4];
      want -= logits.log_softmax(-1)[tokens[t].item<int64_t>()].item<double>();
    }
  }
  const auto got = task->run(all_of(data, 12), {});
  EXPECT_NEAR(got.loss.item<double>(), want, 1e-4);
  EXPECT_EQ(got.sums.at("count").item<int64_t>(), count);
  EXPECT_NEAR(task->metrics(got.sums)[0].value, std::exp(want / static_cast<double>(count)), 1e-4);
}

// The last four tokens of each text that have a next one.
TEST(PerceiverArObjective, TrainingPredictsTheTokensAfterTheLatents) {
  const auto task = made(", latent_place: last");
  auto& model = dynamic_cast<PerceiverAr&>(task->model());
  const auto& data = *task->splits().train;
  double want = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto tokens = tokens_of(data, i);
    const int64_t read = tokens.size(0) - 1, latents = std::min<int64_t>(read, 4);
    Context context;
    const auto rows = model(tokens.narrow(0, 0, read).unsqueeze(0), {}, context);
    for (int64_t j = 0; j < latents; ++j, ++count)
      want -= rows.logits[0][j]
                  .log_softmax(-1)[tokens[read - latents + j + 1].item<int64_t>()]
                  .item<double>();
  }
  const auto got = task->run(all_of(data, 12), Random::from_seed(1));
  EXPECT_NEAR(got.loss.item<double>(), want, 1e-4);
  EXPECT_EQ(got.sums.at("count").item<int64_t>(), count);
}

// Every token of a long sample is predicted in some step, and as many of them in each.
TEST(PerceiverArObjective, LatentsMayStandAnywhere) {
  const auto task = made();
  auto& model = dynamic_cast<PerceiverAr&>(task->model());
  const auto& data = *task->splits().train;
  int64_t longest = 0;
  for (int64_t i = 0; i < data.size(); ++i)
    if (data.length(i) > data.length(longest)) longest = i;
  const auto batch = collate(data, {.indices = {longest}, .padded_length = 12});
  const auto tokens = tokens_of(data, longest);
  const int64_t room = tokens.size(0) - 1 - 4;
  ASSERT_GE(room, 2);
  std::vector<double> losses;  // by the place of the first latent
  for (int64_t first = 0; first <= room; ++first) {
    Context context;
    const auto rows = model(tokens.narrow(0, 0, tokens.size(0) - 1).unsqueeze(0),
                            at::full({1}, first, at::kLong), context);
    const auto next = tokens.narrow(0, first + 1, 4).unsqueeze(1);
    losses.push_back(-rows.logits[0].log_softmax(-1).gather(1, next).sum().item<double>());
  }
  std::set<size_t> met;
  for (int64_t step = 0; step < 60; ++step) {
    const auto outcome = task->run(batch, Random::from_seed(1, step));
    EXPECT_EQ(outcome.sums.at("count").item<int64_t>(), 4);
    const double loss = outcome.loss.item<double>();
    const auto nearest = std::min_element(losses.begin(), losses.end(), [&](double a, double b) {
      return std::abs(a - loss) < std::abs(b - loss);
    });
    EXPECT_NEAR(*nearest, loss, 1e-5);
    met.insert(static_cast<size_t>(nearest - losses.begin()));
  }
  EXPECT_EQ(met.size(), losses.size());
}

TEST(PerceiverArObjective, EveryOptionIsSpelledOut) {
  const auto task = made();
  const auto config = task->model_config();
  EXPECT_EQ(config.find("latent_place")->text, "anywhere");
  EXPECT_EQ(config.find("causal")->text, "true");
  EXPECT_EQ(config.find("attention")->find("name")->text, "softmax");
  const auto again =
      find_objective("perceiver_ar").make(load_data(uneven()), config, {.bucket = 3});
  EXPECT_EQ(again->model_config(), config);
  EXPECT_EQ(again->parameter_count(), task->parameter_count());
  EXPECT_EQ(task->model_card().find("model_type")->text, "longbow_perceiver_ar");
}

TEST(PerceiverArObjective, RefusesAnEndThatIsNoToken) {
  EXPECT_EQ(error_of([] { made(",\n end: 9"); }),
            "m.yaml:2: model.end is 9, but the data has 9 tokens; lower it");
  EXPECT_EQ(error_of([] { made(", end: 8"); }), "");
}

TEST(PerceiverArObjective, WritesWhatIsMostProbable) {
  const auto task = made(", max_length: 16");
  task->model().eval();
  auto& model = dynamic_cast<PerceiverAr&>(task->model());
  const auto prompt = collate(*task->splits().train, {.indices = {0, 1}, .padded_length = 12});
  const auto written = task->write(prompt, {.max_length = 2}, {});
  for (int64_t row = 0; row < 2; ++row) {
    const auto text = tokens_of(*task->splits().train, row).unsqueeze(0);
    Context context;
    const auto logits = model.all(text, context);
    const auto best = logits[0][text.size(1) - 1].narrow(0, 1, 8).argmax().item<int64_t>() + 1;
    EXPECT_EQ(written.tokens[row][0][0].item<int64_t>(), best) << row;
  }
}

TEST(PerceiverArObjective, AWrongModelIsRefusedBeforeDataIsOpened) {
  const auto checked = [](const std::string& model) {
    return error_of([&] { find_objective("perceiver_ar").check(parse_yaml(model, "run.yaml")); });
  };
  EXPECT_EQ(checked("{causal: false}"),
            "run.yaml:1: perceiver_ar is causal; leave model.causal out, or take perceiver");
  EXPECT_EQ(checked("{decoding: {n_best: 2}}"),
            "run.yaml:1: greedy decoding finds one text, not 2; set method to beam or sample");
}

TEST(PerceiverArObjective, BlocksThatCannotDecodeAreTrainedButDoNotWrite) {
  const auto task = made(", attention: {name: routing, clusters: 2}");
  const auto batch = all_of(*task->splits().train, 12);
  EXPECT_GT(task->run(batch, Random::from_seed(1)).loss.item<double>(), 0);
  EXPECT_TRUE(error_of([&] {
                task->write(batch, {}, {});
              }).starts_with("m.yaml:1: routing does not decode; mechanisms that do: "));
}

}  // namespace
}  // namespace longbow
