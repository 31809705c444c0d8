#include "longbow/tasks/prediction.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <string>

#include "tests/support/tensor.h"
#include "tests/tasks/samples.h"

namespace longbow {
namespace {

std::string json(const std::vector<Node>& all) {
  std::string text;
  for (const auto& one : all) text += to_json(one) + "\n";
  return text;
}

TEST(Prediction, OfAClassIsTheMostProbableOne) {
  const auto logits = at::tensor({0.0, std::log(3.0), 0.0, std::log(6.0), 0.0, 0.0}).view({2, 3});
  Batch batch = {.lengths = at::tensor({4, 4}, at::kLong), .samples = 2};
  EXPECT_EQ(json(class_predictions(logits, batch)),
            "{\"class\":1,\"probability\":0.6}\n{\"class\":0,\"probability\":0.75}\n");
  batch.targets = at::tensor({1, -100}, at::kLong);
  EXPECT_EQ(json(class_predictions(logits, batch)),
            "{\"class\":1,\"probability\":0.6,\"target\":1}\n"
            "{\"class\":0,\"probability\":0.75,\"target\":null}\n");
}

TEST(Prediction, NamesClassesThatHaveNames) {
  const auto logits = at::tensor({0.0, std::log(3.0)}).view({1, 2});
  const Batch batch = {.lengths = at::tensor({4}, at::kLong), .samples = 1};
  EXPECT_EQ(json(class_predictions(logits, batch, {"different", "same"})),
            "{\"class\":1,\"label\":\"same\",\"probability\":0.75}\n");
  EXPECT_EQ(json(class_predictions(logits.view({1, 1, 2}).expand({1, 4, 2}), batch, {"a", "b"})),
            "{\"classes\":[1,1,1,1],\"labels\":[\"b\",\"b\",\"b\",\"b\"],"
            "\"probabilities\":[0.75,0.75,0.75,0.75]}\n");
}

TEST(Prediction, OfTokensStopsAtTheEndOfTheRow) {
  const auto logits =
      at::tensor({0.0, std::log(3.0), std::log(4.0), 0.0, 9.0, 0.0}).view({1, 3, 2});
  const Batch batch = {.lengths = at::tensor({2}, at::kLong),
                       .targets = at::tensor({-100, 1, 0}, at::kLong).view({1, 3}),
                       .samples = 1};
  EXPECT_EQ(json(class_predictions(logits, batch)),
            "{\"classes\":[1,0],\"probabilities\":[0.75,0.8],\"target\":[null,1]}\n");
}

TEST(Prediction, OfValuesIsANumberOrAList) {
  const auto one = at::tensor({0.5, 0.25}).view({2, 1}), two = at::tensor({1.5, 2.0}).view({1, 2});
  EXPECT_EQ(json(value_predictions(one, {})), "{\"value\":0.5}\n{\"value\":0.25}\n");
  EXPECT_EQ(json(value_predictions(two, two.neg())), "{\"values\":[1.5,2],\"target\":[-1.5,-2]}\n");
}

// The host program's own locale, when it has set one; restored at the end.
class HostLocale {
 public:
  HostLocale() : before_(std::setlocale(LC_NUMERIC, nullptr)) {
    for (const auto* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "ru_RU.UTF-8"})
      if (std::setlocale(LC_NUMERIC, name)) return;
  }
  ~HostLocale() { std::setlocale(LC_NUMERIC, before_.c_str()); }
  HostLocale(const HostLocale&) = delete;
  HostLocale& operator=(const HostLocale&) = delete;

 private:
  std::string before_;
};

TEST(Prediction, OfAnyValueHasSevenDigits) {
  const HostLocale comma;
  const auto values = at::tensor({1.0 / 3, 12345678.9, 5e-310, -1e300}).view({4, 1});
  EXPECT_EQ(json(value_predictions(values, {})),
            "{\"value\":0.3333333}\n{\"value\":12345680}\n{\"value\":5e-310}\n"
            "{\"value\":-1e+300}\n");
}

std::unique_ptr<Task> task_of(const std::string& objective, const DataConfig& data,
                              const std::string& model) {
  auto task = made(objective, load_data(data), model, {.bucket = 4});
  task->model().eval();
  return task;
}

Batch batch_from(const Task& task) {
  const auto padded = (task.splits().max_length + 3) / 4 * 4;
  return batch_of(task, padded);
}

std::vector<Node> posed_and_predicted(Task& task, const Batch& batch, const Random& random) {
  const at::NoGradGuard no_grad;
  return task.predict(task.corrupt(batch, random), random);
}

double metric(const Task& task, const Outcome& outcome, const std::string& name) {
  for (const auto& one : task.metrics(outcome.sums))
    if (one.name == name) return one.value;
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

// The share of targets that were guessed; lists count item by item.
double share_right(const std::vector<Node>& said, const std::string& guess) {
  double right = 0, count = 0;
  const auto tally = [&](const Node& got, const Node& want) {
    if (want.is_null()) return;
    right += got.text == want.text;
    ++count;
  };
  for (const auto& one : said) {
    const auto &got = *one.find(guess), &want = *one.find("target");
    if (!want.is_list()) tally(got, want);
    EXPECT_EQ(got.items.size(), want.items.size());
    for (size_t i = 0; i < want.items.size(); ++i) tally(got.items[i], want.items[i]);
  }
  EXPECT_GT(count, 10);
  return right / count;
}

TEST(Prediction, OfClassesAddsUpToTheAccuracy) {
  DataConfig recall = {.name = "recall"}, match = {.name = "match"}, listops = {.name = "listops"};
  recall.options = parse_yaml(
      "{train: 9, valid: 2, test: 2, keys: 6, values: 3, pairs: 4, queries: 4}", "options");
  listops.options =
      parse_yaml("{train: 40, valid: 2, test: 2, min_length: 8, max_length: 30}", "options");
  match.options = parse_yaml("{train: 40, valid: 2, test: 2}", "options");
  const auto check = [](const std::string& objective, const DataConfig& data,
                        const std::string& model, const std::string& guess) {
    const auto task = task_of(objective, data, model);
    const auto batch = batch_from(*task);
    const auto random = Random::from_seed(2);
    const auto said = posed_and_predicted(*task, batch, random);
    EXPECT_NEAR(share_right(said, guess), metric(*task, task->run(batch, random), "accuracy"), 1e-9)
        << objective << " " << model;
  };
  check("classification", recall, "{width: 8}", "classes");
  check("classification", listops, "{width: 8}", "class");
  check("pairs", match, "{width: 8}", "class");
  check("pairs", match, "{width: 8, pairs: joint, segments: 2}", "class");
  for (const auto& [data, guess] : {std::pair{recall, "classes"}, {listops, "class"}})
    check("characters", data, "{width: 8, heads: 2, layers: 1, hashes: 2, buckets: 32, rate: 2}",
          guess);
  for (const auto& [data, guess] : {std::pair{recall, "classes"}, {listops, "class"}})
    check("perceiver", data, "{width: 8, heads: 2, layers: 1, latents: 4}", guess);
  check("masked_lm", listops, "{width: 8, masking: {fraction: 0.4}}", "words");
}

TEST(Prediction, OfReplacedTokensAddsUpToTheAccuracy) {
  DataConfig data = {.name = "listops"};
  data.options =
      parse_yaml("{train: 12, valid: 2, test: 2, min_length: 8, max_length: 30}", "options");
  const auto task = task_of("replaced_tokens", data, "{width: 8, masking: {fraction: 0.5}}");
  const auto batch = batch_from(*task);
  const auto random = Random::from_seed(2);
  auto said = posed_and_predicted(*task, batch, random);
  int64_t replaced = 0;
  for (size_t b = 0; b < said.size(); ++b) {
    const auto asked = task->texts().read.read(said[b].find("text")->text, {});
    const auto own = task->splits().train->get(static_cast<int64_t>(b)).tokens;
    Node judged = Node::list();
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(said[b].find("target")->items[i].text, own[i] != asked[i] ? "1" : "0");
      replaced += own[i] != asked[i];
      const auto sure = as_number(said[b].find("probabilities")->items[i], "p");
      judged.items.push_back(Node::integer(sure > 0.5 ? 1 : 0));
    }
    said[b]["judged"] = judged;
  }
  EXPECT_GT(replaced, 20);
  EXPECT_NEAR(share_right(said, "judged"), metric(*task, task->run(batch, random), "accuracy"),
              1e-9);
}

TEST(Prediction, OfValuesHasTheErrorOfTheRun) {
  for (const auto* model : {"{width: 8, range: [0, 2]}", "{width: 8, pairs: joint}"}) {
    DataConfig data = {.name = "count"};
    data.options = parse_yaml("{train: 12, valid: 2, test: 2}", "options");
    const bool pairs = std::string(model).find("joint") != std::string::npos;
    data.options["pairs"] = Node::boolean(pairs);
    const auto task = task_of("regression", data, model);
    EXPECT_EQ(task->texts().pairs, pairs);
    const auto batch = batch_from(*task);
    double error = 0;
    for (const auto& one : posed_and_predicted(*task, batch, {}))
      error += std::pow(as_number(*one.find("value"), "") - as_number(*one.find("target"), ""), 2);
    EXPECT_NEAR(error / 12, metric(*task, task->run(batch, {}), "mse"), 1e-6);
  }
}

TEST(Prediction, OfASpanNamesItsPlacesAndItsTokens) {
  const std::vector<Sample> contexts = {{.tokens = {1, 2, 3, 4, 5}, .targets = {1, 2}},
                                        {.tokens = {6, 7}, .targets = {kIgnore, kIgnore}}};
  const std::vector<Sample> questions = {
      {.tokens = {1, 2}, .targets = {1, 2}, .second = {3, 4, 5}},
      {.tokens = {3}, .targets = {kIgnore, kIgnore}, .second = {6, 7}}};
  for (const auto& [samples, frame] :
       {std::pair(contexts, Frame()), {questions, Frame()}, {questions, Frame{8, 9}}}) {
    auto splits = splits_of(samples);
    splits.frame = frame;
    const auto task = made("span", splits, "{width: 8, layers: 1, init: xavier, max_length: 8}");
    task->model().eval();
    const bool pairs = !samples[0].second.empty();
    EXPECT_EQ(task->texts().pairs, pairs);
    const auto said = posed_and_predicted(*task, batch_of(*task, 8), {});
    for (size_t b = 0; b < samples.size(); ++b) {
      const auto& context = pairs ? samples[b].second : samples[b].tokens;
      const auto first = as_integer(*said[b].find("first"), ""),
                 last = as_integer(*said[b].find("last"), "");
      ASSERT_TRUE(0 <= first && first <= last && last < std::ssize(context));
      std::string answer;
      for (auto i = first; i <= last; ++i)
        answer += (i > first ? " " : "") + std::to_string(context[static_cast<size_t>(i)]);
      EXPECT_EQ(said[b].find("answer")->text, answer);
      const auto sure = as_number(*said[b].find("probability"), "");
      EXPECT_TRUE(0 < sure && sure < 1);
    }
    EXPECT_EQ(to_json(*said[0].find("target")), "[1,2]");
    EXPECT_EQ(to_json(*said[1].find("target")), "[null,null]");
  }
}

TEST(Prediction, OfHiddenTokensFillsTheirPlaces) {
  DataConfig data = {.name = "listops"};
  data.options =
      parse_yaml("{train: 4, valid: 2, test: 2, min_length: 8, max_length: 30}", "options");
  const auto task = task_of("masked_lm", data, "{width: 8}");
  const auto texts = task->texts();
  const auto line = texts.read.read("[MAX [MASK] 7 [MASK] ]", {});
  EXPECT_EQ(line[1], texts.hidden);
  const auto inputs = inputs_of(*task, {{.tokens = line}, {.tokens = texts.read.read("3 ]", {})}});
  const at::NoGradGuard no_grad;
  const auto said = task->predict(collate(*inputs, {.indices = {0, 1}, .padded_length = 8}), {});
  EXPECT_EQ(to_json(*said[0].find("places")), "[1,3]");
  const auto words = said[0].find("words")->items;
  EXPECT_EQ(said[0].find("text")->text, "[MAX " + words[0].text + " 7 " + words[1].text + " ]");
  EXPECT_EQ(said[0].find("target"), nullptr);
  EXPECT_EQ(said[1].find("text")->text, "3 ]");
  EXPECT_EQ(to_json(*said[1].find("words")), "[]");
}

using Ids = std::vector<int32_t>;

// Texts of ids up to 7, between 8 and 9.
Splits framed_texts() {
  auto splits = splits_of({{.tokens = {1, 2, 4}, .targets = {0}}}, 2);
  splits.frame = {8, 9};
  return splits;
}

TEST(Prediction, AFrameIsAroundAnInputAndOnlyBeforeAPrompt) {
  const auto read = [](const std::string& objective, const std::string& model) {
    const auto task = made(objective, framed_texts(), model);
    return inputs_of(*task, {{.tokens = {1, 2}}})->get(0).tokens;
  };
  for (const auto* objective : {"classification", "masked_lm", "replaced_tokens"})
    EXPECT_EQ(read(objective, "{width: 8}"), (Ids{8, 1, 2, 9})) << objective;
  EXPECT_EQ(read("causal_lm", "{width: 8}"), (Ids{8, 1, 2}));
  EXPECT_EQ(read("perceiver_ar", "{width: 8, latents: 2}"), (Ids{8, 1, 2}));
}

TEST(Prediction, AFramedTextEndsWithTheFrameAndHoldsNoBeginning) {
  const auto task = made("causal_lm", framed_texts(), "{width: 8, layers: 1}");
  EXPECT_EQ(task->texts().end, 9);
  EXPECT_EQ(made("causal_lm", framed_texts(), "{width: 8, end: 3}")->texts().end, 3);
  task->model().eval();
  const at::NoGradGuard no_grad;
  const auto prompt = inputs_of(*task, {{.tokens = {1}}});
  const auto written = task->write(
      collate(*prompt, {.indices = {0}, .padded_length = 2}),
      {.method = DecodingMethod::sample, .max_length = 4, .n_best = 100}, Random::from_seed(1));
  const auto holds = [&](int64_t id) { return (written.tokens == id).any().item<bool>(); };
  EXPECT_FALSE(holds(8));
  EXPECT_TRUE(holds(7));
  for (int64_t n = 0; n < 100; ++n) {
    const auto length = written.lengths[0][n].item<int64_t>();
    const auto ends = written.tokens[0][n].narrow(0, 0, length) == 9;
    EXPECT_FALSE(ends.narrow(0, 0, length - 1).any().item<bool>());
    EXPECT_TRUE(length == 4 || ends[length - 1].item<bool>());
  }
}

TEST(Prediction, NothingIsSaidOfTheFrame) {
  const at::NoGradGuard no_grad;
  const auto task_for = [](const std::string& objective) {
    auto task = made(objective, framed_texts(), "{width: 8}", {.bucket = 8});
    task->model().eval();
    return task;
  };
  auto task = task_for("masked_lm");
  const auto hidden = static_cast<int32_t>(task->texts().hidden);
  const auto inputs = inputs_of(*task, {{.tokens = {1, hidden, 4}}});
  const auto said = task->predict(collate(*inputs, {.indices = {0}, .padded_length = 8}), {});
  EXPECT_EQ(to_json(*said.at(0).find("places")), "[1]");

  task = task_for("replaced_tokens");
  const auto judged = posed_and_predicted(*task, batch_of(*task, 8), Random::from_seed(2));
  EXPECT_EQ(judged.at(0).find("probabilities")->items.size(), 3u);
  EXPECT_EQ(judged.at(0).find("target")->items.size(), 3u);
}

TEST(Prediction, OfNoInputsIsNothing) {
  DataConfig match = {.name = "match"};
  match.options = parse_yaml("{train: 4, valid: 2, test: 2}", "options");
  for (const auto* pairs : {"towers", "joint"}) {
    const auto task = task_of("pairs", match, "{width: 8, pairs: " + std::string(pairs) + "}");
    EXPECT_EQ(inputs_of(*task, {})->size(), 0) << pairs;
  }
}

TEST(Prediction, TasksThatWriteDoNotPredictAndOthersDoNotWrite) {
  DataConfig markov = {.name = "markov"}, recall = {.name = "recall"};
  markov.options = recall.options = parse_yaml("{train: 2, valid: 2, test: 2}", "options");
  const auto writes = task_of("causal_lm", markov, "{width: 8}");
  const auto says = task_of("classification", recall, "{width: 8}");
  EXPECT_NE(error_of([&] { writes->predict({}, {}); }).find("does not predict"), std::string::npos);
  EXPECT_NE(error_of([&] { says->write({}, {}, {}); }).find("does not write"), std::string::npos);
  EXPECT_NE(error_of([&] { says->decoding(); }).find("does not write"), std::string::npos);
  EXPECT_EQ(find_objective("causal_lm").command, "generate");
  EXPECT_EQ(find_objective("translation").command, "translate");
  EXPECT_EQ(find_objective("classification").command, "predict");
}

}  // namespace
}  // namespace longbow
