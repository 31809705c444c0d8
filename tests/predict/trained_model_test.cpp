#include "longbow/predict/trained_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/data/samples/text_codec.h"
#include "longbow/predict/predictions.h"
#include "longbow/predict/writing.h"
#include "longbow/tensors/safetensors.h"
#include "longbow/train/run/train.h"
#include "tests/data/idx.h"
#include "tests/data/text_folder.h"
#include "tests/support/tensor.h"
#include "tests/train/scratch.h"

namespace fs = std::filesystem;

namespace longbow {
namespace {

// A run over files in DATA, few and small.
struct Kind {
  std::string name, options, config;
};

const std::string kTraining = "train: {max_steps: 4, batch_size: 8, bucket: 4, threads: 0}";
const std::string kEncoder = "{width: 16, layers: 1, init: xavier}";

// Trains in `folder`/run, copies the run alone to `folder`/alone/run and removes data and run.
std::string alone(const std::string& folder, const Kind& kind) {
  const auto data = folder + "/data", run = folder + "/run", copy = folder + "/alone/run";
  make_data(kind.name, data, parse_yaml(kind.options, "options"), 1);
  const auto text = fmt::format("{{task: {}, data: {{path: {}}}, {}, {}}}", kind.name, data,
                                kind.config, kTraining);
  train(read_run_config(parse_yaml(text, "run.yaml")),
        {.out = run, .progress = ProgressStyle::off});
  fs::create_directories(folder + "/alone");
  fs::copy(run, copy, fs::copy_options::recursive);
  fs::remove_all(data);
  fs::remove_all(run);
  return copy;
}

const std::string kFew = "{train: 32, valid: 8, test: 8, ";

TEST(TrainedModel, PredictsFromItsFolderAlone) {
  const auto folder = alone(scratch(), {"match", kFew + "length: 8}", "model: " + kEncoder});
  auto model = open_model(folder);
  const auto symbols = model.facts().splits.symbols;
  const auto text = symbols.at(1) + " " + symbols.at(2) + "\t" + symbols.at(3);
  const auto said = model.predict({text, text});
  ASSERT_EQ(said.size(), 2u);
  const auto& labels = model.facts().splits.labels;
  EXPECT_TRUE(std::find(labels.begin(), labels.end(), said[0].label) != labels.end());
  EXPECT_GT(said[0].probability, 0.4);
  EXPECT_EQ(said[0].label, said[1].label);
  EXPECT_EQ(said[0].probability, said[1].probability);
  EXPECT_EQ(said[0].all.find("input")->text, text);
}

// Pretrained on hidden pixels and opened without its data.
TEST(TrainedModel, OfPixelsReadsGreyLevels) {
  const auto folder = scratch();
  fs::create_directories(folder + "/data");
  for (const std::string split : {"train", "t10k"}) {
    write_file(folder + "/data/" + split + "-images-idx3-ubyte", idx_images(200, 25));
    write_file(folder + "/data/" + split + "-labels-idx1-ubyte", idx_labels(200));
  }
  const auto text =
      "{task: mnist, data: {path: " + folder +
      "/data}, model: {width: 16, layers: 1, init: xavier, input: pixels, positions: axial, head: "
      "32}, train: {max_steps: 400, batch_size: 20, learning_rate: 1e-2, threads: 0}, pretrain: "
      "{objective: masked_lm, max_steps: 20, model: {tied: false, masking: {fraction: 0.5, masked: "
      "1, random: 0}}}}";
  train(read_run_config(parse_yaml(text, "run.yaml")),
        {.out = folder + "/run", .progress = ProgressStyle::off});
  fs::remove_all(folder + "/data");
  auto model = open_model(folder + "/run");
  EXPECT_EQ(model.facts().splits.image.width, 3);
  const auto said = model.predict({"0 0 0 0 0 0", "225 225 225 225 225 225"});
  EXPECT_EQ(said.at(0).label, "0");
  EXPECT_EQ(said.at(1).label, "9");
  const auto weights = load_safetensors(folder + "/run/model.safetensors").tensors;
  EXPECT_EQ(weights.count("encoder.embedding.pixels.value.weight"), 1);
  EXPECT_EQ(weights.count("encoder.embedding.pixels.mask"), 0) << "only the pretraining has one";
  EXPECT_EQ(error_of([&] { model.predict({"0 0 256"}); }).find("256") != std::string::npos, true);
}

TEST(TrainedModel, ItsCardHasLabelsAndSpecialIdsAsHuggingFaceNamesThem) {
  const auto folder = alone(
      scratch(),
      {"match", kFew + "length: 8}", "model: {width: 16, layers: 1, init: xavier, pairs: joint}"});
  const auto facts = open_model(folder).facts();
  const auto card = parse_json(read_file(folder + "/config.json"), "config.json");
  for (int64_t i = 0; i < facts.splits.classes; ++i) {
    const auto& label = facts.splits.labels.at(static_cast<size_t>(i));
    EXPECT_EQ(card.find("id2label")->find(std::to_string(i))->text, label);
    EXPECT_EQ(card.find("label2id")->find(label)->text, std::to_string(i));
  }
  EXPECT_EQ(card.find("pad_token_id")->text, "0");
  EXPECT_EQ(card.find("sep_token_id")->text, std::to_string(facts.splits.vocabulary));
  EXPECT_EQ(card.find("mask_token_id"), nullptr);
}

TEST(TrainedModel, OfAnObjectiveWithoutClassesSaysAllInItsMap) {
  const auto folder = alone(scratch(), {"count", kFew + "length: 8}", "model: " + kEncoder});
  auto model = open_model(folder);
  const auto said = model.predict({model.facts().splits.symbols.at(2)});
  EXPECT_EQ(said.at(0).label, "");
  EXPECT_NE(said.at(0).all.find("value"), nullptr);
}

TEST(TrainedModel, GeneratesFromItsFolderAlone) {
  const auto folder =
      alone(scratch(), {"markov", kFew + "words: 8, followers: 3, branches: 2, length: 16}",
                        "model: {width: 16, layers: 1, init: xavier, decoding: {max_length: 5}}"});
  auto model = open_model(folder);
  const auto text = model.generate("w1 w2");
  EXPECT_EQ(std::count(text.begin(), text.end(), 'w'), 5) << text;
  EXPECT_EQ(model.generate("w1 w2"), text);

  // Texts begin as training samples do, within four standard deviations.
  constexpr int64_t kCount = 2000;
  const auto begun = predict::beginnings(model.task(), model.facts(), kCount, 1, {});
  ASSERT_EQ(begun.texts.size(), static_cast<size_t>(kCount));
  const auto& facts = model.facts();
  for (size_t i = 0; i < facts.first_tokens.size(); ++i) {
    const auto& word = facts.splits.symbols.at(static_cast<size_t>(facts.first_tokens[i]));
    const auto share = static_cast<double>(facts.first_counts[i]) / 32;
    EXPECT_NEAR(static_cast<double>(std::count(begun.texts.begin(), begun.texts.end(), word)),
                share * kCount, 4 * std::sqrt(kCount * share * (1 - share)) + 1e-9)
        << word;
  }
}

// A run over the texts of a table, in `folder`/`name`; `more` is the rest of its config.
TrainedModel of_texts(const std::string& folder, const std::string& name,
                      const std::string& tokenizer, const std::string& more) {
  write_file(folder + "/t.csv", rows(30));
  const auto text = fmt::format(
      "{{task: table, data: {{path: {0}, cache: {0}/cache, tokenizer: {1}, table: {{train: t.csv, "
      "valid: t.csv, test: t.csv}}}}, {2}}}",
      folder, tokenizer, more);
  train(read_run_config(parse_yaml(text, "run.yaml")),
        {.out = folder + "/" + name, .progress = ProgressStyle::off});
  return open_model(folder + "/" + name);
}

// Training samples are [CLS] text [SEP].
TEST(TrainedModel, OfFramedTextsGoesOnBeforeTheirEnd) {
  const auto model =
      of_texts(scratch(), "run", "{train: wordpiece, min_frequency: 1}",
               "objective: causal_lm, model: {width: 16, layers: 1, init: xavier}, train: "
               "{max_steps: 60, batch_size: 8, bucket: 1, threads: 0, learning_rate: 0.01}");
  auto& task = model.task();
  const auto& splits = model.facts().splits;
  ASSERT_GT(splits.frame.first, 0);
  EXPECT_EQ(task.texts().end, splits.frame.last);
  const auto first = static_cast<int32_t>(splits.frame.first);
  const auto prompts = predict::prompts_of(task, {{"row 1", Place{"prompt", 0}}});
  const auto tokens = prompts.data->get(0).tokens;
  ASSERT_EQ(tokens.size(), 3u);
  EXPECT_EQ(tokens.front(), first);
  EXPECT_NE(tokens.back(), splits.frame.last);
  const auto begun = predict::beginnings(task, model.facts(), 2, 1, {});
  EXPECT_EQ(begun.texts, (std::vector<std::string>{"", ""}));
  EXPECT_EQ(begun.data->get(1).tokens, std::vector{first});

  // A prompt with what follows it is the text of all tokens.
  auto written = predict::continued(task, prompts, {.max_length = 3, .min_length = 2}, 1, 1);
  auto& [added, text, score] = written.at(0).at(0);
  if (added.back() == splits.frame.last) added.pop_back();
  added.insert(added.begin(), tokens.begin(), tokens.end());
  EXPECT_EQ("row 1" + text, splits.codec->decode(added));
  EXPECT_TRUE(text.starts_with(" is")) << text;
}

// As where a model of a large vocabulary is fine-tuned; some ids have no text then.
TEST(TrainedModel, WithMoreIdsThanItsDataReadsTexts) {
  const auto folder = scratch();
  of_texts(folder, "large", "{train: bytes}",
           "objective: masked_lm, model: " + kEncoder + ", " + kTraining);
  auto model = of_texts(folder, "small", "{train: words}",
                        "start: {from: " + folder + "/large}, " + kTraining);
  const auto& splits = model.facts().splits;
  ASSERT_GT(splits.vocabulary, splits.codec->vocabulary());
  const auto said = model.predict({"row 1 is red"});
  ASSERT_EQ(said.size(), 1u);
  EXPECT_GT(said[0].probability, 0.4);
}

TEST(TrainedModel, OfJoinedPairsSaysNothingOfNoTexts) {
  const auto folder = alone(
      scratch(),
      {"match", kFew + "length: 8}", "model: {width: 16, layers: 1, init: xavier, pairs: joint}"});
  EXPECT_TRUE(open_model(folder).predict({}).empty());
}

TEST(TrainedModel, TranslatesFromItsFolderAlone) {
  const auto folder =
      alone(scratch(), {"reverse", kFew + "symbols: 5, length: 6}", "model: " + kEncoder});
  auto model = open_model(folder);
  const auto text = model.translate("s1 s2");
  EXPECT_EQ(model.translate("s1 s2"), text);
  EXPECT_EQ(
      error_of([&] { model.translate("s1 x"); }),
      "source: token 2, 'x', is not a symbol of the data; its symbols are s0, s1, s2, s3, s4");
}

TEST(TrainedModel, AnswersToTheCommandOfItsObjectiveOnly) {
  const auto folder =
      alone(scratch(), {"reverse", kFew + "symbols: 5, length: 6}", "model: " + kEncoder});
  auto model = open_model(folder);
  EXPECT_EQ(
      error_of([&] { model.generate("s1"); }),
      folder +
          ": is a run of translation; generate needs one of causal_lm, perceiver_ar; ask this one "
          "with `longbow translate`");
}

TEST(TrainedModel, WithoutItsVocabularyNeedsTheData) {
  const auto folder = alone(scratch(), {"match", kFew + "length: 8}", "model: " + kEncoder});
  fs::remove(folder + "/vocabulary.json");
  EXPECT_NE(error_of([&] { open_model(folder); })
                .find("does not exist; make it with `longbow data "
                      "make match --out DIR`"),
            std::string::npos);
}

// As longbow 0.1.0 left it: nothing but the data tells what its texts are made of.
TEST(TrainedModel, OfARunWithoutAVocabularyIsThatOfTheData) {
  const auto folder = scratch() + "/run";
  const auto text =
      "{task: recall, data: {recall: {train: 32, valid: 8, test: 8, pairs: 4}}, "
      "model: " +
      kEncoder + ", " + kTraining + "}";
  train(read_run_config(parse_yaml(text, "run.yaml")),
        {.out = folder, .progress = ProgressStyle::off});
  const auto answer = [&] { return to_json(open_model(folder).predict({"k1 v2 k1"}).at(0).all); };
  const auto before = answer();
  fs::remove(folder + "/vocabulary.json");
  EXPECT_EQ(answer(), before);
}

TEST(TrainedModel, NeedsAFinishedRun) {
  const auto folder = scratch();
  EXPECT_EQ(error_of([&] { open_model(folder); }),
            folder +
                ": is not a run folder: config.yaml is missing; `longbow train` prints the "
                "folder it fills");
}

}  // namespace
}  // namespace longbow
