#include "longbow/train/run/export_run.h"

#include <ATen/ATen.h>

#include <set>

#include "longbow/models/bert/bert_folder.h"
#include "longbow/train/run/finished_run.h"
#include "longbow/train/run/train.h"
#include "tests/models/hugging_face.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

// A BERT of 20 words and 16 positions, and a run of two steps that starts from it.
std::string trained(const std::string& here, const std::string& config) {
  auto tensors = bert_tensors();
  tensors["embeddings.word_embeddings.weight"] = random_normal({20, 8}, 71).to(at::kFloat);
  tensors["embeddings.position_embeddings.weight"] = random_normal({16, 8}, 72).to(at::kFloat);
  auto theirs = parse_json(kBertConfig, "config");
  theirs["vocab_size"] = Node::integer(20);
  theirs["max_position_embeddings"] = Node::integer(16);
  write_bert(here + "/bert", tensors, to_json(theirs));
  const auto tree = parse_yaml(config +
                                   "train: {max_steps: 2, batch_size: 8, bucket: 1, threads: 0}\n"
                                   "start: {from: " +
                                   here + "/bert}\n",
                               Place{"--set", 0});
  train(read_run_config(tree), {.out = here + "/run", .progress = ProgressStyle::off});
  return here + "/run";
}

const std::string kPairs =
    "task: match\n"
    "data: {match: {train: 24, valid: 8, test: 8, topics: 2, words: 3, length: 6}}\n"
    "model: {pairs: joint, pooling: first, pooler: true}\n";
const std::string kTagged =
    "task: recall\n"
    "data: {recall: {train: 24, valid: 8, test: 8, keys: 6, values: 3, pairs: 3, queries: 3}}\n";
const std::string kNeedle =
    "task: needle\n"
    "data: {needle: {train: 24, valid: 8, test: 8, words: 8, answers: 4, length: 8}}\n";
const std::string kWords =
    "task: markov\n"
    "objective: masked_lm\n"
    "data: {markov: {train: 24, valid: 8, test: 8, words: 12, followers: 4, length: 8}}\n"
    "model: {head_activation: gelu_tanh, masking: {fraction: 0.4}}\n";

Tensors exported(const std::string& run, const std::string& out) {
  export_run(run, out);
  return load_safetensors(out + "/model.safetensors").tensors;
}

Node config_in(const std::string& folder) {
  return parse_json(read_file(folder + "/config.json"), "config.json");
}

// The names of a class of theirs: BERT's own below "bert.", and those of the head.
void expect_names(const Tensors& weights, bool pooler, std::set<std::string> names) {
  for (const auto& [name, tensor] : bert_tensors())
    if (pooler || !name.starts_with("pooler.")) names.insert("bert." + name);
  std::set<std::string> found;
  for (const auto& [name, tensor] : weights) found.insert(name);
  EXPECT_EQ(found, names);
}

void expect_class(const std::string& folder, const std::string& name) {
  EXPECT_EQ(to_json(*config_in(folder).find("architectures")), "[\"" + name + "\"]");
}

Batch test_batch(const Task& task) {
  Plan plan = {.padded_length = task.splits().max_length};
  for (int64_t i = 0; i < task.splits().test->size(); ++i) plan.indices.push_back(i);
  return collate(*task.splits().test, plan);
}

// The last hidden states of the folder as BERT computes them.
struct Read {
  std::shared_ptr<Bert> bert;
  Tensor states;  // [B, N, C]
};
Read read_by_bert(const std::string& folder, const Batch& batch) {
  auto bert = load_bert(folder);
  bert->eval();
  Context context = {.mask = Mask::from_lengths(batch.lengths, batch.tokens.size(1))};
  return {bert, (*bert)(batch.tokens, batch.segments, context)};
}

TEST(ExportRun, AClassifierOfPairsIsTheirSequenceClassifier) {
  const auto here = scratch(), run = trained(here, kPairs), out = here + "/out";
  const auto weights = exported(run, out);
  expect_names(weights, /*pooler=*/true, {"classifier.weight", "classifier.bias"});
  expect_class(out, "BertForSequenceClassification");
  const auto config = config_in(out);
  EXPECT_EQ(to_json(*config.find("id2label")), R"({"0":"different","1":"same"})");
  EXPECT_EQ(to_json(*config.find("label2id")), R"({"different":0,"same":1})");
  EXPECT_EQ(config.find("num_labels")->text, "2");
  EXPECT_EQ(config.find("problem_type")->text, "single_label_classification");
  EXPECT_EQ(config.find("vocab_size")->text, "21") << "with the separator";
  EXPECT_EQ(config.find("hidden_act")->text, "gelu_new") << "as the BERT had it";
  EXPECT_EQ(config.find("pad_token_id")->text, "0") << "as the BERT had it";
  EXPECT_EQ(read_file(out + "/vocab.txt"), read_file(here + "/bert/vocab.txt"));

  const at::NoGradGuard no_grad;
  auto finished = open_run(run, at::kCPU);
  finished.task->model().eval();
  const auto batch = test_batch(*finished.task);
  const auto said = finished.task->predict(batch, {});
  const auto [bert, states] = read_by_bert(out, batch);
  const auto logits = at::linear(bert->pooled(states), weights.at("classifier.weight"),
                                 weights.at("classifier.bias"));
  const auto sure = logits.softmax(-1).amax(-1);
  for (int64_t b = 0; b < batch.samples; ++b)
    EXPECT_NEAR(as_number(*said[static_cast<size_t>(b)].find("probability"), "probability"),
                sure[b].item<double>(), 1e-6);
}

TEST(ExportRun, AClassifierOfTokensIsTheirTokenClassifier) {
  const auto here = scratch(), out = here + "/out";
  const auto weights = exported(trained(here, kTagged), out);
  expect_names(weights, /*pooler=*/false, {"classifier.weight", "classifier.bias"});
  expect_class(out, "BertForTokenClassification");
  EXPECT_EQ(to_json(*config_in(out).find("label2id")), R"({"v0":0,"v1":1,"v2":2})");
}

TEST(ExportRun, ASpanModelIsTheirQuestionAnswerer) {
  const auto here = scratch(), out = here + "/out";
  const auto weights = exported(trained(here, kNeedle), out);
  expect_names(weights, /*pooler=*/false, {"qa_outputs.weight", "qa_outputs.bias"});
  expect_class(out, "BertForQuestionAnswering");
  EXPECT_EQ(weights.at("qa_outputs.weight").sizes(), at::IntArrayRef({2, 8}));
}

TEST(ExportRun, AMaskedLanguageModelIsTheirs) {
  const auto here = scratch(), run = trained(here, kWords), out = here + "/out";
  const auto weights = exported(run, out);
  const std::string head = "cls.predictions.", layer = head + "transform.";
  expect_names(weights, /*pooler=*/false,
               {head + "bias", layer + "dense.weight", layer + "dense.bias",
                layer + "LayerNorm.weight", layer + "LayerNorm.bias"});
  expect_class(out, "BertForMaskedLM");
  EXPECT_EQ(config_in(out).find("vocab_size")->text, "21") << "with the mask token";

  const at::NoGradGuard no_grad;
  auto finished = open_run(run, at::kCPU);
  finished.task->model().eval();
  auto batch = test_batch(*finished.task);
  batch.tokens.select(1, 3).fill_(20);
  batch.targets = at::Tensor();
  const auto said = finished.task->predict(batch, {});
  const auto [bert, states] = read_by_bert(out, batch);
  const auto dense =
      at::linear(states, weights.at(layer + "dense.weight"), weights.at(layer + "dense.bias"));
  const auto normed =
      at::layer_norm(at::gelu(dense, "tanh"), {8}, weights.at(layer + "LayerNorm.weight"),
                     weights.at(layer + "LayerNorm.bias"), 1e-7);
  const auto logits = at::linear(normed, weights.at("bert.embeddings.word_embeddings.weight"),
                                 weights.at(head + "bias"));
  const auto sure = logits.softmax(-1).amax(-1).select(1, 3);
  for (int64_t b = 0; b < batch.samples; ++b)
    EXPECT_NEAR(as_number(said[static_cast<size_t>(b)].find("probabilities")->items.at(0), "p"),
                sure[b].item<double>(), 1e-6);
}

TEST(ExportRun, TrainingStartsFromWhatWasExported) {
  const auto here = scratch(), out = here + "/out";
  const auto weights = exported(trained(here, kPairs), out);
  const auto imported = import_bert(out);
  EXPECT_EQ(imported.left_out, (std::vector<std::string>{"classifier.bias", "classifier.weight"}));
  EXPECT_TRUE(at::equal(imported.weights.at("pooler.dense.weight"),
                        weights.at("bert.pooler.dense.weight")));
  const auto again = read_run_config(parse_yaml(
      kPairs + "train: {max_steps: 1, learning_rate: 1e-30, weight_decay: 0, bucket: 1}\n" +
          "start: {from: " + out + "}\n",
      Place{"--set", 0}));
  train(again, {.out = here + "/again", .progress = ProgressStyle::off});
  const auto moved = load_safetensors(here + "/again/model.safetensors").tensors;
  EXPECT_TRUE(at::equal(moved.at("encoder.layers.1.mixer.query.weight"),
                        weights.at("bert.encoder.layer.1.attention.self.query.weight")));
}

TEST(ExportRun, ABertThatIsGoneTakesItsTokenizerWithIt) {
  const auto here = scratch(), run = trained(here, kTagged), out = here + "/out";
  std::filesystem::remove_all(here + "/bert");
  export_run(run, out);
  EXPECT_FALSE(std::filesystem::exists(out + "/vocab.txt"));
  expect_class(out, "BertForTokenClassification");
}

TEST(ExportRun, RefusesWhatNoClassOfTheirsComputes) {
  const auto refused = [](const std::string& config) {
    const auto here = scratch(), run = trained(here, config);
    const auto error = error_of([&] { export_run(run, here + "/out"); });
    EXPECT_FALSE(std::filesystem::exists(here + "/out"));
    return error.starts_with(run + ": ") ? error.substr(run.size() + 2) : error;
  };
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_EQ(refused(with(kPairs, "pooling: first, pooler: true", "pooling: mean")),
            "Hugging Face's classifiers read each token, or the first one through BERT's pooler, "
            "and have no hidden layer; train with model.pooling: first, model.pooler: true and "
            "model.head: 0");
  EXPECT_EQ(refused(with(kPairs, "pairs: joint", "pairs: towers")),
            "Hugging Face's BERT has no model with two towers; train with model.pairs: joint");
  EXPECT_EQ(refused(kTagged + "model: {attention: linear}\n"),
            "a layer is linear, but Hugging Face's BERT has softmax attention only");
  EXPECT_EQ(refused(kTagged + "model: {block: {residual: pre_norm}}\n"),
            "model.block.residual is \"pre_norm\", but Hugging Face's BERT has \"post_norm\"");
  EXPECT_EQ(refused(with(kWords, "head_activation: gelu_tanh, ", "")),
            "Hugging Face's language head is tied to the words and has a layer with the activation "
            "of the others; train with model.tied: true, model.transform: true and "
            "model.head_activation: gelu_tanh");
  EXPECT_EQ(refused(with(with(kWords, "masked_lm", "causal_lm"),
                         "model: {head_activation: gelu_tanh, masking: {fraction: 0.4}}\n", "")),
            "a model of causal_lm is none of Hugging Face's BERTs; those of classification, "
            "masked_lm, pairs, regression, span are");
}

}  // namespace
}  // namespace longbow
