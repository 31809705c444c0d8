#include "longbow/train/run/run_config.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longbow/attention/mechanism.h"
#include "longbow/core/file.h"
#include "tests/support/tensor.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

std::string mistake(const std::string& text) {
  return error_of([&] { read_run_config(parse_yaml(text, "run.yaml")); });
}

TEST(RunConfig, TheTaskNamesTheData) {
  const auto config = read_run_config(parse_yaml("task: recall", "run.yaml"));
  EXPECT_EQ(config.task, "recall");
  EXPECT_EQ(config.data.name, "recall");
}

TEST(RunConfig, MistakesAreFoundBeforeAnyDataIsOpened) {
  EXPECT_EQ(mistake("seed: 1"), "run.yaml:1: task is missing; write task: listops");
  EXPECT_EQ(mistake("task: lsitops"),
            "run.yaml:1: unknown task 'lsitops'; did you mean 'listops'?");
  EXPECT_EQ(mistake("task: recall\nobjective: masked_ml"),
            "run.yaml:2: unknown objective 'masked_ml'; did you mean 'masked_lm'?");
  EXPECT_EQ(mistake("task: recall\ntrain:\n  carry: true"),
            "run.yaml:3: classification reads every sample by itself; leave train.carry out, or "
            "take objective: causal_lm");
  EXPECT_EQ(mistake("task: lines\ndata: {path: .}\ntrain:\n  batch_tokens: 64\n  carry: true"),
            "run.yaml:5: rows that go on need the same number of them in every batch; set "
            "train.batch_size instead of train.batch_tokens");
  EXPECT_EQ(mistake("task: recall\ndata:\n  name: listops"),
            "run.yaml:3: data.name is 'listops', but the task is 'recall'; leave data.name out");
  EXPECT_EQ(mistake("task: recall\nmodel: {width: 10, heads: 3}"),
            "run.yaml:2: model.width 10 is not a multiple of model.heads 3; change one of them, or "
            "set model.head_width");
  EXPECT_EQ(mistake("task: recall\nmodel:\n  width: 5"),
            "run.yaml:2: model.width 5 is not a multiple of model.heads 2; change one of them, or "
            "set model.head_width");
  EXPECT_EQ(mistake("task: recall\nmodel: {width: 10, heads: 3, head_width: 4}"), "");
  EXPECT_EQ(mistake("task: recall\nmodel:\n  causal: true\n  attention: fnet"),
            "run.yaml:4: fnet is not causal; mechanisms that are: " +
                mechanisms_that([](const Promises& p) { return p.future != Future::refused; }));
  EXPECT_EQ(mistake("task: recall\ndata: {path: nowhere}"),
            "run.yaml:2: data.path 'nowhere' does not exist; make it with `longbow data make "
            "recall --out DIR`");
}

// What only the samples show has a line, too.
TEST(RunConfig, AMistakeThatTheDataShowsIsPlaced) {
  const auto config = read_run_config(parse_yaml(
      "task: recall\ndata:\n  recall: {train: 4, valid: 2, test: 2}\n  max_tokens: 5", "run.yaml"));
  EXPECT_EQ(error_of([&] { load_data(config.data); }).find("run.yaml:4: data.max_tokens is 5"), 0u);
}

TEST(RunConfig, ADataSetReadsItsOwnOptions) {
  const auto config =
      read_run_config(parse_yaml("task: recall\ndata: {recall: {keys: 48}}", "run.yaml"));
  EXPECT_EQ(config.data.options.find("keys")->text, "48");
  EXPECT_EQ(config.data.options.find("values")->text, "16") << "every option is spelled out";
  const auto tree = *written(config).find("data");
  EXPECT_NE(tree.find("recall"), nullptr);
  EXPECT_EQ(tree.find("listops"), nullptr);
  EXPECT_EQ(mistake("task: recall\ndata:\n  recall: {keys: 8}\n  markov: {words: 8}"),
            "run.yaml:4: unknown key 'markov'; one of: name, path, seed, max_tokens, tokenizer, "
            "cache, recall");
  EXPECT_EQ(mistake("task: recall\ndata:\n  recall:\n    kyes: 8"),
            "run.yaml:4: unknown key 'kyes'; did you mean 'keys'?");
  EXPECT_EQ(mistake("task: recall\ndata: {recall: {keys: 0}}"),
            "run.yaml:2: data.recall.keys is 0, out of range; it may be 1..60000");
  EXPECT_EQ(mistake("task: lsitops\ndata: {listops: {train: 8}}"),
            "run.yaml:1: unknown task 'lsitops'; did you mean 'listops'?");
}

TEST(RunConfig, ADataSetMayHaveDefaultsOfItsOwn) {
  const auto data = [](const std::string& own) {
    return read_model_config(parse_yaml("{task: aan, data: " + own + "}", "run.yaml")).data;
  };
  EXPECT_EQ(data("{}").max_tokens, 4000);
  EXPECT_EQ(data("{}").tokenizer.training.kind, TokenizerKind::bytes);
  EXPECT_EQ(data("{max_tokens: 1000}").max_tokens, 1000);
  EXPECT_EQ(data("{tokenizer: {train: unigram}}").tokenizer.training.kind, TokenizerKind::unigram);
  EXPECT_EQ(mistake("task: aan\ndata:\n  path: .\n  tokenizer: {vocabulary: 8}"),
            "run.yaml:4: data.tokenizer.vocabulary is not an option of bytes; kinds that have it: "
            "wordpiece, bpe, byte_bpe, sentencepiece_bpe, unigram, words, characters");
}

TEST(RunConfig, ATranslationTakesSizesForBothParts) {
  const auto config = read_run_config(parse_yaml(
      "task: reverse\nmodel: {width: 32, heads: 4, layers: 3, encoder: {layers: 1}}", "run.yaml"));
  EXPECT_EQ(to_yaml(config.model), to_yaml(parse_yaml("{encoder: {width: 32, heads: 4, layers: 1}, "
                                                      "decoder: {width: 32, heads: 4, layers: 3}}",
                                                      "want")));
  EXPECT_EQ(mistake("task: reverse\nmodel:\n  width: 30\n  heads: 4"),
            "run.yaml:4: model.width 30 is not a multiple of model.heads 4; change one of them, or "
            "set model.head_width");
}

TEST(RunConfig, OptionsOfTheTrainingThatContradictEachOtherAreRefused) {
  EXPECT_EQ(mistake("task: recall\ntrain: {max_steps: 0}"),
            "run.yaml:2: nothing says when training ends; set train.max_steps or "
            "train.max_epochs");
  EXPECT_EQ(mistake("task: recall\ntrain:\n  decay: one_cycle\n  warmup_steps: 5"),
            "run.yaml:4: one_cycle has no warm-up of its own; leave train.warmup_steps out; "
            "train.one_cycle.rising is what it has instead");
  EXPECT_EQ(mistake("task: recall\ntrain: {decay: warm_restarts}"),
            "run.yaml:2: warm_restarts does not know how long its first fall is; set "
            "train.decay_steps");
  EXPECT_EQ(mistake("task: recall\ntrain: {decay: multi_step}"),
            "run.yaml:2: multi_step does not know when to drop; set train.milestones");
  EXPECT_EQ(mistake("task: recall\ntrain:\n  decay: plateau"),
            "run.yaml:3: plateau waits for evaluations, and there are none; set "
            "train.evaluate_every");
  EXPECT_EQ(mistake("task: recall\ntrain: {decay: plateau, evaluate_every: 5}"), "");
  EXPECT_EQ(mistake("task: recall\ntrain: {decay: plateau, evaluate_every: 5}\npretrain:\n"
                    "  objective: masked_lm\n  evaluate_every: 0"),
            "run.yaml:5: decay: plateau waits for evaluations, and pretraining has none; leave "
            "pretrain.evaluate_every out");
  EXPECT_EQ(mistake("task: recall\ntrain: {optimizer: sgd, sgd: {nesterov: true}}"),
            "run.yaml:2: nesterov needs a momentum and no dampening; set train.sgd.momentum");
  EXPECT_EQ(mistake("task: recall\ntrain: {adafactor: {warmup_init: true}}"),
            "run.yaml:2: warmup_init is a part of relative_step; set "
            "train.adafactor.relative_step");
  EXPECT_EQ(mistake("task: recall\ntrain:\n  lengths: [64, 32]"),
            "run.yaml:3: train.lengths does not rise; write them from the shortest to the longest, "
            "each once");
}

TEST(RunConfig, EpochsAloneSetNoLimitOfSteps) {
  const auto steps = [](const std::string& train) {
    const auto config = read_run_config(parse_yaml("task: recall\ntrain: " + train, "run.yaml"));
    return total_steps(config.train, 700);
  };
  EXPECT_EQ(steps("{max_epochs: 3}"), 2100);
  EXPECT_EQ(steps("{max_epochs: 3, accumulate: 4}"), 525);
  EXPECT_EQ(steps("{max_epochs: 3, max_steps: 50}"), 50);
  EXPECT_EQ(steps("{}"), 1000);
}

TEST(RunConfig, ARelativePathIsTakenFromTheFileThatNamesIt) {
  const auto folder = scratch();
  std::filesystem::create_directories(folder + "/data");
  write_file(folder + "/run.yaml", "task: recall\ndata: {path: ./data}\n");
  EXPECT_EQ(read_run_config(load_config(folder + "/run.yaml")).data.path, folder + "/data");
}

TEST(RunConfig, IsReadBackAsItIsWritten) {
  auto config =
      read_run_config(parse_yaml("task: recall\nmodel: {attention: {name: linformer, rank: "
                                 "8}}\ntrain: {decay: cosine}\nseed: 9",
                                 "run.yaml"));
  const auto text = to_yaml(written(config));
  auto again = read_run_config(parse_yaml(text, "config.yaml"));
  EXPECT_EQ(to_yaml(written(again)), text);
  EXPECT_EQ(again.train.schedule.decay, Decay::cosine);
  EXPECT_EQ(again.seed, 9u);
}

}  // namespace
}  // namespace longbow
