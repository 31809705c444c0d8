#include "longbow/train/run/start.h"

#include <ATen/ATen.h>

#include "longbow/data/samples/text_codec.h"
#include "longbow/models/bert/bert_folder.h"
#include "longbow/text/tokenizer/plain_tokenizers.h"
#include "longbow/train/run/checkpoint.h"
#include "longbow/train/run/dry_run.h"
#include "longbow/train/run/encoder_part.h"
#include "longbow/train/run/finished_run.h"
#include "longbow/train/run/start_model.h"
#include "longbow/train/run/train.h"
#include "tests/models/hugging_face.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

// A BERT of 20 words and 16 positions.
void write_small_bert(const fs::path& folder) {
  auto tensors = bert_tensors();
  tensors["embeddings.word_embeddings.weight"] = random_normal({20, 8}, 71).to(at::kFloat);
  tensors["embeddings.position_embeddings.weight"] = random_normal({16, 8}, 72).to(at::kFloat);
  auto config = parse_json(kBertConfig, "config");
  config["vocab_size"] = Node::integer(20);
  config["max_position_embeddings"] = Node::integer(16);
  write_bert(folder, tensors, to_json(config));
}

// Key-value recall, 13 words in sequences of up to 9.
const std::string kRecall =
    "task: recall\n"
    "data: {recall: {train: 48, valid: 8, test: 8, keys: 6, values: 3, pairs: 3, queries: 3}}\n"
    "train: {max_steps: 4, batch_size: 8, bucket: 3, threads: 0, log_every: 1}\n";

RunConfig configured(const std::string& from, const std::string& more = "",
                     const std::string& base = kRecall) {
  return read_run_config(
      parse_yaml(base + "start: {from: " + from + "}\n" + more, Place{"--set", 0}));
}

// What it starts from is what it ends with.
RunConfig unmoved(RunConfig config) {
  config.train.max_steps = 1;
  config.train.optimizer.learning_rate = 1e-30;
  config.train.optimizer.weight_decay = 0;
  return config;
}

Tensors run(const RunConfig& config, const std::string& out, bool resume = false) {
  train(config, {.out = out, .resume = resume, .progress = ProgressStyle::off});
  return load_safetensors(out + "/model.safetensors").tensors;
}

Encoder& encoder_in(Part& model) {
  return dynamic_cast<Encoder&>(*model.named_children()["encoder"]);
}

void expect_the_same_states(const std::string& bert_folder, const std::string& run_folder) {
  const auto bert = load_bert(bert_folder);
  auto finished = open_run(run_folder, at::kCPU);
  bert->eval();
  finished.task->model().eval();
  const auto& data = *finished.task->splits().train;
  const auto batch = collate(data, {.indices = {0, 1, 2, 3}, .padded_length = 12});
  const auto mask = Mask::from_lengths(batch.lengths, 12);
  Context theirs = {.mask = mask}, ours = {.mask = mask};
  const auto expected = (*bert)(batch.tokens, {}, theirs);
  EXPECT_GT(expected.abs().max().item<double>(), 0.1);
  EXPECT_NEAR_TENSOR(encoder_in(finished.task->model())(batch.tokens, ours), expected,
                     (Tolerance{1e-5, 0}));
}

TEST(Start, WhatTheFolderSaysIsTheDefaultOfTheModel) {
  const auto folder = scratch();
  write_small_bert(folder + "/bert");
  const auto config = configured(folder + "/bert", "model: {layers: 1, attention: linear}\n");
  EXPECT_EQ(config.start.vocabulary, 20);
  const auto encoder = read<EncoderConfig>(encoder_part(config.model));
  EXPECT_EQ(encoder.width, 8);
  EXPECT_EQ(encoder.heads, 2);
  EXPECT_EQ(encoder.layers, 1);
  EXPECT_EQ(encoder.max_length, 16);
  EXPECT_EQ(encoder.segments, 3);
  EXPECT_TRUE(encoder.embedding_norm);
  EXPECT_EQ(encoder.embedding_dropout, 0.3);
  EXPECT_EQ(encoder.block.residual, Residual::post_norm);
  EXPECT_EQ(encoder.block.norm_epsilon, 1e-7);
  EXPECT_EQ(encoder.block.feed_forward.width, 12);
  EXPECT_EQ(encoder.attention.text, "linear");
}

TEST(Start, TheEncoderOfARunIsTheBertThatItStartsFrom) {
  const auto folder = scratch();
  write_small_bert(folder + "/theirs");
  save_bert(import_bert(folder + "/theirs"), folder + "/theirs", folder + "/ours");
  for (const std::string from : {"/theirs", "/ours"}) {
    run(unmoved(configured(folder + from)), folder + "/run" + from);
    expect_the_same_states(folder + from, folder + "/run" + from);
  }
}

TEST(Start, TheEncoderOfARunIsThePublishedBert) {
  const auto theirs = parity_file("hf/bert-folder");
  const auto folder = scratch();
  run(unmoved(configured(theirs)), folder + "/run");
  expect_the_same_states(theirs, folder + "/run");

  const auto moving = configured(theirs, "model: {attention: {name: linformer, rank: 4}}\n");
  run(moving, folder + "/moving");
  EXPECT_FALSE(
      at::equal(load_safetensors(folder + "/moving/model.safetensors").tensors.at("output.weight"),
                load_safetensors(folder + "/run/model.safetensors").tensors.at("output.weight")));
}

TEST(Start, AnotherMechanismKeepsTheProjections) {
  const auto folder = scratch();
  write_small_bert(folder + "/bert");
  for (const auto& from : {fs::path(folder + "/bert"), parity_file("hf/bert-folder")}) {
    const auto config = configured(from, "model: {attention: {name: linformer, rank: 4}}\n");
    const auto used = run(unmoved(config), folder + "/run-" + from.filename().string());
    const auto stored = load_safetensors(from / "model.safetensors").tensors;
    const std::pair<const char*, const char*> projections[] = {{"self.query", "query"},
                                                               {"self.key", "key"},
                                                               {"self.value", "value"},
                                                               {"output.dense", "output"}};
    for (const std::string layer : {"0", "1"})
      for (const auto& [theirs, ours] : projections)
        for (const std::string end : {".weight", ".bias"})
          EXPECT_TRUE(at::equal(used.at("encoder.layers." + layer + ".mixer." + ours + end),
                                stored.at("encoder.layer." + layer + ".attention." + theirs + end)))
              << layer << ours << end;
  }
}

TEST(Start, ThePoolerComesAlongWhereTheModelHasOne) {
  const auto folder = scratch();
  write_small_bert(folder + "/bert");
  const auto match =
      "task: match\nobjective: pairs\ndata: {match: {train: 16, valid: 8, test: 8, topics: 2, "
      "words: 4, length: 5}}\n"
      "train: {batch_size: 8, bucket: 1, threads: 0}\n";
  const auto config =
      configured(folder + "/bert", "model: {pairs: joint, pooling: first, pooler: true}\n", match);
  const auto used = run(unmoved(config), folder + "/run");
  EXPECT_TRUE(at::equal(used.at("pooler.dense.weight"), bert_tensors().at("pooler.dense.weight")));
  EXPECT_EQ(used.at("encoder.embedding.words").size(0), 21) << "with a separator";
}

TEST(Start, ARunOfTheSameObjectiveGivesEverything) {
  const auto folder = scratch();
  const std::string model = "model: {width: 8, layers: 1}\n";
  const std::string masked = kRecall + "objective: masked_lm\n";
  const auto first =
      run(read_run_config(parse_yaml(masked + model, "run.yaml")), folder + "/first");
  const auto second = run(unmoved(configured(folder + "/first", "", masked)), folder + "/second");
  ASSERT_EQ(second.size(), first.size());
  for (const auto& [name, tensor] : second) EXPECT_TRUE(at::equal(tensor, first.at(name))) << name;

  const std::string reverse =
      "task: reverse\ndata: {reverse: {train: 32, valid: 8, test: 8, symbols: 5, length: 6}}\n"
      "train: {max_steps: 3, batch_size: 8, threads: 0}\n";
  const std::string sizes =
      "model: {encoder: {width: 8, layers: 1}, decoder: {width: 8, layers: 1}}\n";
  const auto before =
      run(read_run_config(parse_yaml(reverse + sizes, "run.yaml")), folder + "/there");
  const auto after = run(unmoved(configured(folder + "/there", "", reverse)), folder + "/back");
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [name, tensor] : after) EXPECT_TRUE(at::equal(tensor, before.at(name))) << name;
}

TEST(Start, ARunOfAnotherObjectiveGivesItsEncoder) {
  const auto folder = scratch();
  const std::string model = "model: {width: 8, layers: 1, head: 4, block: {residual: post_norm}}\n";
  const auto first =
      run(read_run_config(parse_yaml(kRecall + model, "run.yaml")), folder + "/first");
  for (const std::string objective : {"masked_lm", "causal_lm", "replaced_tokens"}) {
    const auto config =
        configured(folder + "/first", "", kRecall + "objective: " + objective + "\n");
    EXPECT_EQ(config.model.find("head"), nullptr) << "no option of the other head";
    const auto fresh = weights_of(make_task(config, at::kCPU)->model());
    const auto used = run(unmoved(config), folder + "/" + objective);
    for (const auto& [name, tensor] : used) {
      if (name == "encoder.embedding.words")  // one more for the mask
        EXPECT_TRUE(at::equal(tensor.narrow(0, 0, first.at(name).size(0)), first.at(name)));
      else
        EXPECT_TRUE(at::equal(tensor, (name.starts_with("encoder.") ? first : fresh).at(name)))
            << objective << " " << name;
    }
  }
}

TEST(Start, LongerSequencesStartAnewOrRepeatThePositions) {
  const auto folder = scratch();
  write_small_bert(folder + "/bert");
  const auto stored = load_safetensors(folder + "/bert/model.safetensors")
                          .tensors.at("embeddings.position_embeddings.weight");
  const auto positions = [&](const std::string& model, const std::string& name) {
    auto config = configured(folder + "/bert", "model: " + model + "\n");
    if (name == "tile") config.start.positions = NewPositions::tile;
    const auto fresh = weights_of(make_task(config, at::kCPU)->model());
    return std::pair{run(unmoved(config), folder + "/" + name).at("encoder.embedding.positions"),
                     fresh.at("encoder.embedding.positions")};
  };
  const auto [anew, fresh] = positions("{max_length: 40}", "random");
  EXPECT_TRUE(at::equal(anew, at::cat({stored, fresh.narrow(0, 16, 24)})));
  const auto [tiled, unused] = positions("{max_length: 40}", "tile");
  EXPECT_TRUE(at::equal(tiled, at::cat({stored, stored, stored.narrow(0, 0, 8)})));
  const auto [cut, shorter] = positions("{max_length: 12}", "cut");
  EXPECT_TRUE(at::equal(cut, stored.narrow(0, 0, 12)));
}

TEST(Start, MistakesSayWhatDoesNotFit) {
  const auto folder = scratch();
  write_small_bert(folder + "/bert");
  const auto error = [&](const std::string& start, const std::string& model = "{}") {
    return error_of([&] {
      const auto config = read_run_config(
          parse_yaml(kRecall + "start: " + start + "\nmodel: " + model + "\n", "run.yaml"));
      make_task(config, at::kCPU);
    });
  };
  const auto from = "{from: " + folder + "/bert}", name = folder + "/bert";
  EXPECT_EQ(error(from), "");
  EXPECT_EQ(error(from, "{width: 16}"),
            "run.yaml:5: model.width is 16, but that of " + name + " is 8; leave it out");
  EXPECT_EQ(error(from, "{heads: 4}"),
            "run.yaml:5: model.heads is 4, but that of " + name + " is 2; leave it out");
  EXPECT_EQ(error(from, "{width: 8, heads: 2, embedding_width: 8, head_width: 4}"), "");
  EXPECT_EQ(
      error("{from: " + folder + "/nowhere}"),
      "run.yaml:4: start.from '" + folder +
          "/nowhere' is not a folder; name one that `longbow train` or `longbow import` wrote");
  EXPECT_EQ(error("{from: " + folder + "}"),
            folder + ": is not a model folder: config.json is missing");
  EXPECT_EQ(error("{freeze: 1}"),
            "run.yaml:4: start.from is missing; it names the folder of the weights");
  EXPECT_EQ(error("{from: " + name + ", freeze: 3}"),
            "run.yaml:4: start.freeze is 3, but the encoder has 2 layers");
  EXPECT_EQ(error("{from: " + name + ", positions: tile}", "{positions: sinusoidal}"),
            "run.yaml:4: only learned positions can be repeated; leave start.positions out");
  EXPECT_EQ(error("{frm: x}"), "run.yaml:4: unknown key 'frm'; did you mean 'from'?");

  fs::create_directories(folder + "/unfinished");
  write_file(folder + "/unfinished/config.yaml", "task: recall\n");
  EXPECT_EQ(error("{from: " + folder + "/unfinished}"),
            folder +
                "/unfinished: holds no finished run: model.safetensors is missing; finish it "
                "with `longbow train --resume`");

  auto config = configured(name);
  config.data.options["keys"] = Node::scalar("40");
  EXPECT_EQ(error_of([&] { make_task(config, at::kCPU); }),
            "the data has 45 words, but the model of " + name +
                " has 20; make the data with the tokenizer of that model");
}

// Ids of other data are one higher, where 0 is padding here and a token there.
TEST(Start, TextsNeedABertWhosePaddingIsItsFirstToken) {
  const auto folder = scratch();
  write_small_bert(folder + "/bert");
  fs::create_directories(folder + "/run");
  write_file(folder + "/run/config.yaml", "task: recall\n");
  const auto error = [&](const std::string& from, const std::vector<std::string>& special,
                         int64_t words) {
    const auto codec = std::make_shared<TextCodec>(character_tokenizer("abc", special, "[UNK]"));
    Splits splits = {
        .vocabulary = codec->vocabulary(), .codec = codec, .symbols = codec->symbols()};
    return error_of([&] {
      fit_vocabulary({.from = folder + from, .vocabulary = words}, splits);
      EXPECT_EQ(splits.vocabulary, words);
    });
  };
  for (const int64_t words : {20, 5})
    EXPECT_EQ(error("/bert", {"[UNK]", "[PAD]"}, words),
              "id 0 of the data's tokenizer is not [PAD], so the ids of the data are one higher "
              "than those of " +
                  folder + "/bert; texts can start from a BERT only where [PAD] is id 0");
  EXPECT_EQ(error("/bert", {"[PAD]", "[UNK]"}, 20), "");
  EXPECT_EQ(error("/run", {"[UNK]", "[PAD]"}, 20), "") << "its ids were moved too";
  EXPECT_EQ(error("/gone", {"[UNK]", "[PAD]"}, 20), "") << "it has been started from before";
}

TEST(Start, ARelativeFolderIsTakenFromTheFileThatNamesIt) {
  const auto folder = scratch();
  write_small_bert(folder + "/models/bert");
  write_file(folder + "/configs.yaml", kRecall + "start: {from: models/bert}\n");
  const auto config = read_run_config(load_config(folder + "/configs.yaml"));
  EXPECT_EQ(config.start.from, folder + "/models/bert");
}

TEST(Start, TheFolderIsNotNeededOnceTheRunHasBegun) {
  const auto folder = scratch();
  write_small_bert(folder + "/bert");
  auto tree = parse_yaml(kRecall + "start: {from: bert}\nmodel: {attention: linear}\n",
                         folder + "/run.yaml");
  tree["train"]["checkpoint_every"] = Node::integer(2);
  tree["train"]["keep_checkpoints"] = Node::integer(9);
  const auto config = read_run_config(tree);
  const auto whole = run(config, folder + "/whole");
  run(read_run_config(load_config(folder + "/whole/config.yaml")), folder + "/again");
  EXPECT_EQ(read_file(folder + "/again/model.safetensors"),
            read_file(folder + "/whole/model.safetensors"))
      << "the written config runs again";

  const auto broken = [&](const std::string& name) {
    fs::copy(folder + "/whole", folder + name, fs::copy_options::recursive);
    for (const auto* gone : {"checkpoints/4", "model.safetensors", "results.json"})
      fs::remove_all(fs::path(folder + name) / gone);
    return folder + name;
  };
  const auto own = broken("/own"), given = broken("/given"), early = broken("/early");
  fs::remove_all(early + "/checkpoints");
  fs::remove_all(folder + "/bert");
  run(read_run_config(load_config(own + "/config.yaml")), own, true);
  EXPECT_EQ(read_file(own + "/model.safetensors"), read_file(folder + "/whole/model.safetensors"));
  EXPECT_NO_THROW(open_run(own, at::kCPU));

  EXPECT_NE(error_of([&] { read_run_config(tree); }), "");
  auto recalled = tree;
  recall_start(recalled, given);
  run(read_run_config(recalled), given, true);
  EXPECT_EQ(read_file(given + "/model.safetensors"),
            read_file(folder + "/whole/model.safetensors"));

  // Before the first checkpoint there is nothing else to start from.
  EXPECT_TRUE(error_of([&] {
                run(read_run_config(load_config(early + "/config.yaml")), early, true);
              }).starts_with("start.from '" + folder + "/bert' is not a folder"));
}

TEST(Start, AnotherFolderIsNotReadWithTheNotesOfTheFirst) {
  const auto folder = scratch();
  write_small_bert(folder + "/bert");
  write_bert(folder + "/other", bert_tensors());
  run(configured(folder + "/bert"), folder + "/run");
  auto tree = load_config(folder + "/run/config.yaml");
  assign(tree, "start.from=" + folder + "/other");
  EXPECT_EQ(error_of([&] { run(read_run_config(tree), folder + "/again"); }),
            "start.vocabulary is 20, but that of " + folder + "/other is 11; leave it out");
}

TEST(Start, AResumedRunKeepsItsStart) {
  const auto folder = scratch();
  write_small_bert(folder + "/bert");
  auto config = configured(folder + "/bert");
  run(config, folder + "/run");
  config.start.freeze = 1;
  const auto error = error_of([&] { run(config, folder + "/run", true); });
  EXPECT_TRUE(error.starts_with(folder + "/run/config.yaml:")) << error;
  EXPECT_TRUE(
      error.ends_with(": start is not that of the run to resume; take the run's own "
                      "config, or choose another --out"))
      << error;
}

TEST(Start, APretrainingStartsFromIt) {
  const auto folder = scratch();
  write_small_bert(folder + "/bert");
  auto config = unmoved(configured(folder + "/bert", "pretrain: {objective: masked_lm}\n"));
  const auto used = run(config, folder + "/run");
  const auto stored = read_bert_weights(folder + "/bert");
  EXPECT_EQ(used.at("encoder.embedding.words").size(0), 20);
  for (const auto& [name, tensor] : used)
    if (name.starts_with("encoder.")) EXPECT_TRUE(at::equal(tensor, stored.at(name))) << name;
}

TEST(Start, AnAverageBeginsWithWhatIsTakenOver) {
  const auto folder = scratch();
  write_small_bert(folder + "/bert");
  auto config = unmoved(configured(folder + "/bert"));
  config.train.average = {.ema = 0.9, .ema_corrected = false};
  const auto used = run(config, folder + "/run");
  const auto stored = read_bert_weights(folder + "/bert");
  for (const auto& [name, tensor] : used)
    if (name.starts_with("encoder."))
      EXPECT_NEAR_TENSOR(tensor, stored.at(name), (Tolerance{1e-6, 1e-6})) << name;
}

TEST(Start, FrozenLayersDoNotMoveByABit) {
  const auto folder = scratch();
  write_small_bert(folder + "/bert");
  const auto stored = read_bert_weights(folder + "/bert");
  const auto is_frozen = [](const std::string& name) {
    return name.starts_with("encoder.embedding.") || name.starts_with("encoder.layers.0.");
  };
  const auto check = [&](const std::string& name, const std::function<void(RunConfig&)>& change) {
    auto config = configured(folder + "/bert");
    config.start.freeze = 1;
    config.train.optimizer.weight_decay = 0.1;
    config.train.optimizer.learning_rate = 1e-2;
    change(config);
    const auto used = run(config, folder + "/" + name);
    for (const auto& [key, tensor] : used)
      if (key.starts_with("encoder."))
        EXPECT_EQ(at::equal(tensor, stored.at(key)), is_frozen(key)) << name << " " << key;
    for (const auto& [key, tensor] :
         load_safetensors(folder + "/" + name + "/checkpoints/4/optimizer.safetensors").tensors)
      EXPECT_FALSE(is_frozen(key)) << key;
  };
  check("fp32", [](RunConfig&) {});
  check("bf16", [](RunConfig& config) { config.train.precision = Precision::bf16; });
  check("averaged", [](RunConfig& config) { config.train.average.ema = 0.5; });
  check("recomputed",
        [](RunConfig& config) { config.model["block"]["recompute"] = Node::string("block"); });

  auto config = configured(folder + "/bert");
  const auto all = dry_run(config, at::kCPU);
  config.start.freeze = 2;
  const auto rest = dry_run(config, at::kCPU);
  EXPECT_EQ(rest.total, all.total);
  EXPECT_EQ(rest.gradients, 4.0 * (8 * 3 + 3)) << "the head alone is trained";
}

}  // namespace
}  // namespace longbow
