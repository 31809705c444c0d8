#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/models/heads/language_model.h"
#include "longbow/tasks/language.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

DataConfig uneven() {
  DataConfig data = {.name = "markov"};
  data.options = parse_yaml(
      "{train: 6, valid: 4, test: 4, words: 8, followers: 4, branches: 2, length: 9, length_min: "
      "2}",
      "options");
  return data;
}

std::unique_ptr<Task> made(const DataConfig& data, const std::string& model = "{width: 8}") {
  return find_objective("causal_lm")
      .make(load_data(data), parse_yaml(model, "m.yaml"), {.bucket = 3});
}

Batch all_of(const Dataset& data, int64_t padded) {
  Plan plan = {.padded_length = padded};
  for (int64_t i = 0; i < data.size(); ++i) plan.indices.push_back(i);
  return collate(data, plan);
}

TEST(CausalLm, TargetsAreTheNextTokensInsideARow) {
  const auto tokens = at::tensor({5, 6, 7, 8, 9, 0, 3, 0, 0}, at::kLong).view({3, 3});
  const auto next = next_tokens(tokens, at::tensor({3, 2, 1}, at::kLong));
  EXPECT_TRUE(at::equal(
      next, at::tensor({6, 7, -100, 9, -100, -100, -100, -100, -100}, at::kLong).view({3, 3})));
}

TEST(CausalLm, SumsWhatEachRowAloneWouldLose) {
  const auto task = made(uneven());
  task->model().eval();
  auto& model = dynamic_cast<LanguageModel&>(task->model());
  const auto& data = *task->splits().train;
  double want = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto sample = data.get(i);
    const auto tokens =
        at::tensor(std::vector<int64_t>(sample.tokens.begin(), sample.tokens.end()), at::kLong);
    for (int64_t t = 1; t < tokens.size(0); ++t, ++count) {
      Context context;  // only the tokens before, so nothing later can be seen
      const auto logits = model(tokens.narrow(0, 0, t).unsqueeze(0), context)[0][t - 1];
      want -= logits.log_softmax(-1)[tokens[t].item<int64_t>()].item<double>();
    }
  }
  const auto got = task->run(all_of(data, 9), {});
  EXPECT_NEAR(got.loss.item<double>(), want, 1e-4);
  EXPECT_EQ(got.sums.at("count").item<int64_t>(), count);
  EXPECT_NEAR(task->metrics(got.sums)[0].value, std::exp(want / static_cast<double>(count)), 1e-4);
}

TEST(CausalLm, IsCausalByItself) {
  const auto task = made(uneven());
  EXPECT_EQ(task->model_config().find("causal")->text, "true");
  EXPECT_EQ(task->model_config().find("transform")->text, "false");
  EXPECT_EQ(error_of([&] { made(uneven(), "{width: 8,\n causal: false}"); }),
            "m.yaml:2: causal_lm needs a causal model; leave model.causal out, or take masked_lm");
  const auto message = error_of(
      [&] { find_objective("causal_lm").check(parse_yaml("{attention: fastformer}", "m.yaml")); });
  EXPECT_TRUE(message.starts_with("m.yaml:1: fastformer is not causal; mechanisms that are: "))
      << message;
}

TEST(CausalLm, RowsOfOneTokenHaveNothingToLearn) {
  auto data = uneven();
  data.max_tokens = 1;
  const auto task = made(data);
  const auto got = task->run(all_of(*task->splits().train, 3), {});
  EXPECT_EQ(got.loss.item<double>(), 0);
  EXPECT_EQ(got.sums.at("weight").item<int64_t>(), 0);
}

TEST(CausalLm, ContinuesPromptsOfUnequalLengthAsEachAlone) {
  const auto task = made(uneven(), "{width: 8, init: xavier, decoding: {max_length: 4}, end: 3}");
  task->model().eval();
  EXPECT_EQ(task->decoding().max_length, 4);
  const SampleList prompts({{.tokens = {5, 1, 2, 8}}, {.tokens = {7}}, {.tokens = {2, 6}}}, false);
  const auto together = task->write(collate(prompts, {.indices = {0, 1, 2}, .padded_length = 5}),
                                    task->decoding(), {});
  auto& model = dynamic_cast<LanguageModel&>(task->model());
  for (int64_t i = 0; i < prompts.size(); ++i) {
    auto text = prompts.get(i).tokens;
    const auto before = text.size();
    for (bool over = false; !over;) {
      Context context;
      const auto tokens = at::tensor(std::vector<int64_t>(text.begin(), text.end())).unsqueeze(0);
      const auto logits = model(tokens, context)[0][-1].narrow(0, 1, 8);  // never padding
      text.push_back(static_cast<int32_t>(logits.argmax().item<int64_t>()) + 1);
      over = text.back() == 3 || text.size() - before == 4;
    }
    const auto length = together.lengths[i][0].item<int64_t>();
    ASSERT_EQ(static_cast<size_t>(length), text.size() - before) << i;
    for (int64_t t = 0; t < length; ++t)
      EXPECT_EQ(together.tokens[i][0][t].item<int64_t>(), text[before + static_cast<size_t>(t)]);
  }
}

TEST(CausalLm, WhatBeginsAndEndsATargetIsNoTokenOfTheSources) {
  DataConfig data = {.name = "reverse"};
  data.options = parse_yaml("{train: 2, valid: 2, test: 2}", "options");
  auto task = made(data);
  EXPECT_EQ(task->texts().begin, 0);
  EXPECT_EQ(task->texts().end, 0);
  task = made(data, "{width: 8, end: 4}");
  EXPECT_EQ(task->texts().end, 4);
  EXPECT_EQ(task->texts().holds, 18) << "17, the longest, in buckets of 3";
}

TEST(CausalLm, RefusesDecodingThatContradictsItself) {
  const auto check = [](const std::string& text) {
    return error_of([&] { find_objective("causal_lm").check(parse_yaml(text, "m.yaml")); });
  };
  EXPECT_EQ(check("decoding:\n  n_best: 2"),
            "m.yaml:2: greedy decoding finds one text, not 2; set method to beam or sample");
  EXPECT_EQ(check("decoding: {beam: 2}"), "m.yaml:1: unknown key 'beam'; did you mean 'beams'?");
}

TEST(CausalLm, WordsThatAreTiedHaveTheWidthOfTheModel) {
  const auto check = [](const std::string& text) {
    return error_of([&] { find_objective("causal_lm").check(parse_yaml(text, "m.yaml")); });
  };
  EXPECT_EQ(check("width: 16\nembedding_width: 8"),
            "m.yaml:2: words of width 8 are tied to a model of width 16 without a transform; set "
            "model.transform: true, or model.tied: false");
  EXPECT_EQ(check("width: 16\nembedding_width: 8\ntransform: true"), "");
  EXPECT_EQ(check("width: 16\nembedding_width: 8\ntied: false"), "");
}

}  // namespace
}  // namespace longbow
