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

TEST(CausalLm, RefusesAnEndThatIsNoToken) {
  EXPECT_EQ(error_of([] { made(uneven(), "{width: 8,\n end: 9}"); }),
            "m.yaml:2: model.end is 9, but the data has 9 tokens; lower it");
  EXPECT_EQ(error_of([] { made(uneven(), "{width: 8, end: 8}"); }), "");
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

// A running text in windows, each of which begins with the last token of the one before it.
struct RunningText : Dataset {
  std::vector<int32_t> tokens;
  int64_t step = 5;
  explicit RunningText(int64_t length) {
    for (int64_t t = 0; t < length; ++t) tokens.push_back(static_cast<int32_t>(1 + t * t % 7));
  }
  int64_t size() const override { return (std::ssize(tokens) - 2) / step + 1; }
  int64_t length(int64_t i) const override {
    return std::min(step + 1, std::ssize(tokens) - i * step);
  }
  Sample get(int64_t i) const override {
    const auto from = tokens.begin() + i * step;
    return {.tokens = {from, from + length(i)}};
  }
  int64_t targets() const override { return 0; }
  bool running() const override { return true; }
};

std::unique_ptr<Task> carrying(const std::shared_ptr<const Dataset>& text, int64_t lanes,
                               const std::string& model) {
  Splits splits;
  set_splits(splits, text, text, text);
  splits.vocabulary = 8;
  return find_objective("causal_lm").make(splits, parse_yaml(model, "m.yaml"), {.lanes = lanes});
}

// Sums of the whole text, row by row as a sampler plans it.
Tensors read_through(Task& task, int64_t lanes) {
  const auto& data = *task.splits().train;
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < data.size(); ++i) lengths.push_back(data.length(i));
  Sampler sampler(lengths, {.batch_size = lanes, .bucket = 1, .carry = true}, 1);
  Tensors sums;
  for (int64_t i = 0; i < sampler.batches_per_epoch(); ++i)
    for (const auto& [name, value] : task.run(collate(data, sampler.next()), {}).sums)
      sums[name] = sums.count(name) ? sums.at(name) + value : value;
  return sums;
}

const std::string kRemembers =
    "{width: 8, positions: none, max_length: 1000, attention: {name: transformer_xl, memory: 9}}";

TEST(CausalLm, ATextThatGoesOnLosesWhatItWouldInOnePiece) {
  const auto text = std::make_shared<RunningText>(43);
  for (const auto* attention : {"{name: transformer_xl, memory: 9}", "linear", "softmax",
                                "{name: compressive, memory: 4, slots: 3, rate: 2}"}) {
    const auto task =
        carrying(text, 1, "{width: 8, max_length: 64, attention: " + std::string(attention) + "}");
    auto& model = dynamic_cast<LanguageModel&>(task->model());
    model.eval();
    Context context;
    const auto tokens =
        at::tensor(std::vector<int64_t>(text->tokens.begin(), text->tokens.end()), at::kLong);
    const auto whole = language_loss(model(tokens.narrow(0, 0, 42).unsqueeze(0), context),
                                     tokens.narrow(0, 1, 42).unsqueeze(0), 1, {}, false);
    for (const bool training : {false, true}) {
      model.train(training);
      const at::AutoGradMode mode(training);
      const auto sums = read_through(*task, 1);
      EXPECT_EQ(sums.at("count").item<int64_t>(), 42) << attention;
      EXPECT_NEAR(sums.at("loss").item<double>(), whole.loss.item<double>(), 1e-4) << attention;
    }
  }
}

// Rows that end early leave the others as they are.
TEST(CausalLm, EveryRowIsATextOfItsOwn) {
  const auto text = std::make_shared<RunningText>(43);  // 9 samples: rows of 3, 3 and 3; 4 of 3
  const at::NoGradGuard no_grad;
  double want = 0;
  for (const int64_t from : {0, 15, 30}) {
    auto part = std::make_shared<RunningText>(0);
    const auto last = std::min<int64_t>(from + 16, 43);
    part->tokens = {text->tokens.begin() + from, text->tokens.begin() + last};
    const auto alone = carrying(part, 1, kRemembers);
    alone->model().eval();
    want += read_through(*alone, 1).at("loss").item<double>();
  }
  for (const int64_t lanes : {3, 4}) {
    const auto task = carrying(text, lanes, kRemembers);
    task->model().eval();
    EXPECT_NEAR(read_through(*task, lanes).at("loss").item<double>(), want, 1e-4) << lanes;
    EXPECT_NEAR(read_through(*task, lanes).at("loss").item<double>(), want, 1e-4) << "once more";
  }
}

TEST(CausalLm, ATextThatIsTooLongForTheModelBeginsAnew) {
  const auto text = std::make_shared<RunningText>(41);
  const at::NoGradGuard no_grad;
  const auto sums = [&](int64_t max_length) {
    const auto task =
        carrying(text, 1,
                 "{width: 8, positions: none, max_length: " + std::to_string(max_length) +
                     ", attention: {name: transformer_xl, memory: 9}}");
    task->model().eval();
    return read_through(*task, 1).at("loss").item<double>();
  };
  double want = 0;  // two texts of 20 tokens
  for (const int64_t from : {0, 20}) {
    auto part = std::make_shared<RunningText>(0);
    part->tokens = {text->tokens.begin() + from, text->tokens.begin() + from + 21};
    const auto task = carrying(part, 1, kRemembers);
    task->model().eval();
    want += read_through(*task, 1).at("loss").item<double>();
  }
  EXPECT_NEAR(sums(20), want, 1e-4);
  EXPECT_NEAR(sums(24), want, 1e-4);
  EXPECT_GT(std::abs(sums(40) - want), 1e-4);
}

TEST(CausalLm, RefusesToCarryWhatDoesNotGoOn) {
  auto splits = load_data(uneven());
  const auto task =
      find_objective("causal_lm").make(splits, parse_yaml("{width: 8}", "m.yaml"), {.lanes = 2});
  EXPECT_EQ(error_of([&] { (void)task->lanes(); }),
            "train.carry: the samples are not one running text; take data like lines, without "
            "across: false, or leave train.carry out");
}

}  // namespace
}  // namespace longbow
