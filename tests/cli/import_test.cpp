#include <gtest/gtest.h>

#include "longbow/core/config.h"
#include "tests/cli/program.h"
#include "tests/models/hugging_face.h"

namespace longbow::cli {
namespace {

TEST(ImportCommand, ReadsAFolderAndExportGivesItBack) {
  const Workspace here;
  write_bert(here.path("theirs"), bert_tensors());
  auto outcome = here.run({"import", "theirs", "--out", "ours"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "kept 39 tensors\nours\n");
  EXPECT_EQ(here.read("ours/vocab.txt"), here.read("theirs/vocab.txt"));
  outcome = here.run({"export", "ours", "--out", "back"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "back\n");
  EXPECT_TRUE(here.read("back/model.safetensors") == here.read("theirs/model.safetensors"));
  outcome = here.run({"export", "ours", "--out", "parts", "--max-shard-bytes", "1000"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_FALSE(here.has("parts/model.safetensors"));
  EXPECT_TRUE(here.has("parts/model-00002-of-00007.safetensors"));
  outcome = here.run({"import", "parts", "--out", "again"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(here.read("again/model.safetensors") == here.read("ours/model.safetensors"));
  EXPECT_EQ(here.run({"export", "ours", "--out", "parts"}).code, 2) << "holds a model";
}

TEST(ImportCommand, ListsWhatStartsAnewAndWhatIsLeftOut) {
  const Workspace here;
  write_bert(here.path("theirs"), bert_tensors());
  const auto outcome =
      here.run({"import", "theirs", "--out", "ours", "--attention",
                "[{name: linformer, rank: 4, layers: 0}, {name: fnet, layers: 1}]"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "kept 31 tensors\n"
            "left out encoder.layer.1.attention.self.query.weight\n"
            "left out encoder.layer.1.attention.self.query.bias\n"
            "left out encoder.layer.1.attention.self.key.weight\n"
            "left out encoder.layer.1.attention.self.key.bias\n"
            "left out encoder.layer.1.attention.self.value.weight\n"
            "left out encoder.layer.1.attention.self.value.bias\n"
            "left out encoder.layer.1.attention.output.dense.weight\n"
            "left out encoder.layer.1.attention.output.dense.bias\n"
            "initialised encoder.layers.0.mixer.e [4, 10]\n"
            "ours\n");
}

TEST(ImportCommand, MistakesAreOneLineAndWriteNothing) {
  const Workspace here;
  auto tensors = bert_tensors();
  write_bert(here.path("theirs"), tensors);
  tensors.erase("pooler.dense.bias");
  tensors["pooler.dense.more"] = at::zeros({1});
  write_bert(here.path("broken"), tensors);
  const auto refused = [&](const Arguments& arguments) {
    const auto outcome = here.run(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_FALSE(here.has("ours"));
    return outcome.err;
  };
  EXPECT_EQ(refused({"import", "broken", "--out", "ours"}),
            "longbow: broken/model.safetensors: weights do not fit the model: missing "
            "pooler.dense.bias, unexpected pooler.dense.more\n");
  EXPECT_EQ(refused({"import", "nowhere", "--out", "ours"}),
            "longbow: nowhere: is not a model folder: config.json is missing\n");
  EXPECT_EQ(refused({"import", "theirs", "--out", "ours", "--attention", "{name: linfromer}"}),
            "longbow: --attention: unknown mechanism 'linfromer'; did you mean 'linformer'?\n");
  EXPECT_EQ(refused({"import", "theirs", "--out", "ours", "--attention",
                     "{name: nystromformer, conv: 4}"}),
            "longbow: --attention: nystromformer.conv is 4, but a filter has an odd length; take "
            "an odd number, or 0 for no filter\n");
  EXPECT_EQ(refused({"export", "theirs", "--out", "ours"}),
            "longbow: theirs/config.json: the model is not a BERT: model_type is not "
            "\"longbow_bert\"; `longbow import` makes such a folder\n");
}

TEST(ImportCommand, TrainingStartsFromWhatWasImported) {
  const auto published = parity_file("hf/bert-folder");
  const Workspace here;
  here.write("tiny.yaml",
             "task: recall\n"
             "data: {recall: {train: 64, valid: 16, test: 16, keys: 6, values: 3, pairs: 3}}\n"
             "train: {max_steps: 3, batch_size: 8, threads: 0}\n");
  auto outcome = here.run(
      {"import", published.string(), "--out", "bert", "--attention", "{name: linformer, rank: 4}"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  outcome = here.run({"train", "tiny.yaml", "--set", "start.from=bert", "--out", "run"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("39 tensors of " + here.path("bert").string() +
                             " moved; not used: pooler.*; initialised randomly: output.*"),
            std::string::npos)
      << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("linformer on recall: ")) << outcome.out;

  // Nothing of the run needs the folder any more.
  std::filesystem::remove_all(here.path("bert"));
  outcome = here.run({"eval", "run", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto scores = parse_json(outcome.out, "eval");
  const auto result = parse_json(here.read("run/results.json"), "results.json");
  EXPECT_NEAR(as_number(*scores.find("accuracy"), "accuracy"),
              as_number(*result.find("score"), "score"), 1e-12);
  const Arguments longer = {"train",           "tiny.yaml", "--set",
                            "start.from=bert", "--set",     "train.max_steps=4",
                            "--out",           "run",       "--resume"};
  outcome = here.run(longer);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  outcome = here.run({"train", "tiny.yaml", "--set", "start.from=bert", "--out", "other"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "longbow: --set start.from: start.from '" + here.path("bert").string() +
                "' is not a folder; name one that `longbow train` or `longbow import` wrote\n");
}

TEST(ImportCommand, AnotherMechanismTrainsWithTheProjectionsBitForBit) {
  const Workspace here;
  write_bert(here.path("theirs"), bert_tensors());
  here.write(
      "tiny.yaml",
      "task: recall\n"
      "data: {recall: {train: 16, valid: 8, test: 8, keys: 4, values: 3, pairs: 2, queries: 2}}\n"
      "model: {attention: {name: linformer, rank: 4}}\n"
      "start: {from: theirs, freeze: 2}\n"
      "train: {max_steps: 2, batch_size: 8, bucket: 1, threads: 0}\n");
  const auto outcome = here.run({"train", "tiny.yaml", "--out", "run"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto used = load_safetensors(here.path("run/model.safetensors")).tensors;
  for (const std::string part : {"query", "key", "value"})
    EXPECT_TRUE(at::equal(used.at("encoder.layers.1.mixer." + part + ".weight"),
                          bert_tensors().at("encoder.layer.1.attention.self." + part + ".weight")));
}

TEST(ImportCommand, AFineTunedRunIsExportedAsTheClassThatComputesIt) {
  const Workspace here;
  write_bert(here.path("theirs"), bert_tensors());
  here.write(
      "tiny.yaml",
      "task: recall\n"
      "data: {recall: {train: 16, valid: 8, test: 8, keys: 4, values: 3, pairs: 2, queries: 2}}\n"
      "start: {from: theirs}\n"
      "train: {max_steps: 2, batch_size: 8, bucket: 1, threads: 0}\n");
  auto outcome = here.run({"train", "tiny.yaml", "--out", "run"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  outcome = here.run({"export", "run", "--out", "back"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "back\n");
  const auto config = parse_json(here.read("back/config.json"), "config.json");
  EXPECT_EQ(to_json(*config.find("architectures")), "[\"BertForTokenClassification\"]");
  EXPECT_EQ(to_json(*config.find("id2label")), R"({"0":"v0","1":"v1","2":"v2"})");
  EXPECT_EQ(here.read("back/vocab.txt"), here.read("theirs/vocab.txt"));
  outcome = here.run({"import", "back", "--out", "again"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "kept 37 tensors\nleft out classifier.bias\nleft out classifier.weight\nagain\n");

  outcome = here.run({"export", "run", "--out", "back"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "longbow: back: already holds a model; name another folder with --out\n");
  std::filesystem::remove(here.path("run/model.safetensors"));
  outcome = here.run({"export", "run", "--out", "more"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "longbow: run: holds no finished run: model.safetensors is missing; finish it with "
            "`longbow train --resume`\n");
}

TEST(ImportCommand, ABrokenIndexOfFilesIsOneLine) {
  const Workspace here;
  write_bert(here.path("theirs"), bert_tensors());
  const auto index = "theirs/model.safetensors.index.json";
  std::filesystem::rename(here.path("theirs/model.safetensors"),
                          here.path("theirs/model-00001-of-00001.safetensors"));
  auto map = Node::map();
  for (const auto& [name, tensor] : bert_tensors())
    map[name] = Node::string("model-00001-of-00001.safetensors");
  here.write(index, to_json(Node::map({{"weight_map", map}})));
  auto outcome = here.run({"import", "theirs", "--out", "ours"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "kept 39 tensors\nours\n");
  map["pooler.dense.bias"] = Node::string("../elsewhere.safetensors");
  here.write(index, to_json(Node::map({{"weight_map", map}})));
  outcome = here.run({"import", "theirs", "--out", "again"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            std::string("longbow: ") + index +
                ":1: the file of tensor 'pooler.dense.bias' is "
                "'../elsewhere.safetensors'; it must be a file name beside the index\n");
  EXPECT_FALSE(here.has("again"));
}

}  // namespace
}  // namespace longbow::cli
