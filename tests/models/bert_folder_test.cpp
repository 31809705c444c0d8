#include "longbow/models/bert/bert_folder.h"

#include "tests/models/hugging_face.h"
#include "tests/support/memory.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

Node yaml(const std::string& text) {
  return parse_yaml(text, Place{"--attention", 0});
}

std::string message(const fs::path& folder) {
  return error_of([&] { import_bert(folder); });
}

TEST(BertFolder, EveryMisfitIsListedInOneMessage) {
  const auto folder = scratch_folder();
  auto tensors = bert_tensors();
  tensors.erase("encoder.layer.0.attention.self.query.bias");
  tensors.erase("embeddings.LayerNorm.weight");
  tensors["encoder.layer.1.output.dense.weight"] = at::zeros({8, 13});
  tensors["pooler.dense.weight"] = at::zeros({8, 9});
  tensors["encoder.layer.2.output.dense.bias"] = at::zeros({8});
  tensors["classifier.weight"] = at::zeros({2, 8});
  write_bert(folder, tensors);
  EXPECT_EQ(message(folder),
            (folder / "model.safetensors").string() +
                ": weights do not fit the model: missing embeddings.LayerNorm.weight, missing "
                "encoder.layer.0.attention.self.query.bias, encoder.layer.1.output.dense.weight is "
                "[8, 13] instead of [8, 12], pooler.dense.weight is [8, 9] instead of [8, 8], "
                "unexpected classifier.weight, unexpected encoder.layer.2.output.dense.bias");
}

// A config.json with other sizes than the weights have.
void claim(const fs::path& folder, const std::map<std::string, int64_t>& sizes) {
  const auto file = (folder / "config.json").string();
  auto tree = parse_json(read_file(file), file);
  for (const auto& [key, size] : sizes) tree[key] = Node::integer(size);
  write_file(file, to_json(tree));
}

TEST(BertFolder, SizesThatTheWeightsDoNotHaveAreRefusedBeforeAModelIsMade) {
  const auto folder = scratch_folder();
  write_bert(folder / "theirs", bert_tensors());
  save_bert(import_bert(folder / "theirs"), folder / "theirs", folder / "ours");
  claim(folder / "theirs", {{"vocab_size", 1 << 30}, {"num_hidden_layers", 1024}});
  claim(folder / "ours", {{"vocabulary", 1 << 30}, {"width", 65536}, {"layers", 3}});
  const auto claims = [&](const std::string& name) {
    return error_of([&] { load_bert(folder / name); });
  };
  EXPECT_EQ(claims("theirs"),
            (folder / "theirs/model.safetensors").string() +
                ": weights do not fit the model: embeddings.word_embeddings.weight is [11, 8] "
                "instead of [1073741824, 8], missing encoder.layer.2.attention.self.query.weight, "
                "missing encoder.layer.2.attention.self.query.bias, missing "
                "encoder.layer.2.attention.self.key.weight, missing "
                "encoder.layer.2.attention.self.key.bias, missing "
                "encoder.layer.2.attention.self.value.weight, missing "
                "encoder.layer.2.attention.self.value.bias, missing "
                "encoder.layer.2.attention.output.dense.weight and 16345 more");
  const auto ours = claims("ours");
  EXPECT_NE(ours.find("weights do not fit the model: encoder.embedding.words is [11, 8] instead of "
                      "[1073741824, 65536], encoder.embedding.positions is [10, 8] instead of [10, "
                      "65536]"),
            std::string::npos)
      << ours;
  for (const std::string name : {"theirs", "ours"})
    EXPECT_LT(peak_bytes([&] { load_bert(folder / name); }), int64_t{256} << 20) << name;
}

TEST(BertFolder, AWeightOfWholeNumbersDoesNotFit) {
  const auto folder = scratch_folder();
  auto tensors = bert_tensors();
  tensors["pooler.dense.bias"] = at::zeros({8}, at::kLong);
  write_bert(folder, tensors);
  EXPECT_EQ(message(folder), (folder / "model.safetensors").string() +
                                 ": weights do not fit the model: pooler.dense.bias is [8] of Long "
                                 "instead of [8]");
}

TEST(BertFolder, AFolderThatIsNoneSaysWhatIsMissing) {
  const auto folder = scratch_folder();
  EXPECT_EQ(message(folder), folder.string() + ": is not a model folder: config.json is missing");
  write_file(folder / "config.json", kBertConfig);
  EXPECT_EQ(message(folder),
            folder.string() +
                ": holds no weights: model.safetensors is missing; save the model with "
                "safe_serialization");
}

TEST(BertFolder, AModelWithAHeadAndOldNamesIsRead) {
  const auto folder = scratch_folder();
  std::map<std::string, Tensor> headed = {{"cls.predictions.bias", at::zeros({11})},
                                          {"bert.embeddings.position_ids", at::arange(10)}};
  for (const auto& [name, tensor] : bert_tensors()) {
    if (name.starts_with("pooler")) continue;
    auto old = "bert." + name;
    if (const auto norm = old.find("LayerNorm."); norm != std::string::npos)
      old = old.substr(0, norm + 10) + (name.ends_with("weight") ? "gamma" : "beta");
    headed[old] = tensor;
  }
  write_bert(folder, headed);
  const auto found = import_bert(folder);
  EXPECT_EQ(found.left_out,
            (std::vector<std::string>{"bert.embeddings.position_ids", "cls.predictions.bias"}));
  EXPECT_FALSE(found.config.pooler);
  EXPECT_EQ(found.kept, static_cast<int64_t>(bert_tensors().size()) - 2);
  EXPECT_TRUE(at::equal(found.weights.at("encoder.layers.1.mixer_norm.weight"),
                        bert_tensors().at("encoder.layer.1.attention.output.LayerNorm.weight")));
  EXPECT_TRUE(found.anew.empty());
}

// The same model in three files.
void write_shards(const fs::path& folder) {
  write_bert(folder, {});
  fs::remove(folder / "model.safetensors");
  std::map<std::string, Tensors> files;
  auto map = Node::map();
  size_t count = 0;
  for (const auto& [name, tensor] : bert_tensors()) {
    const auto file = "model-0000" + std::to_string(++count % 3 + 1) + "-of-00003.safetensors";
    files[file][name] = tensor;
    map[name] = Node::string(file);
  }
  for (const auto& [file, tensors] : files) save_safetensors(folder / file, tensors);
  write_file(folder / "model.safetensors.index.json", to_json(Node::map({{"weight_map", map}})));
}

TEST(BertFolder, WeightsInSeveralFilesAreOneModel) {
  const auto folder = scratch_folder();
  write_bert(folder / "whole", bert_tensors());
  write_shards(folder / "shards");
  const auto whole = import_bert(folder / "whole"), shards = import_bert(folder / "shards");
  ASSERT_EQ(shards.weights.size(), whole.weights.size());
  for (const auto& [name, tensor] : whole.weights)
    EXPECT_TRUE(at::equal(shards.weights.at(name), tensor)) << name;
  EXPECT_EQ(shards.kept, whole.kept);
  const auto index = (folder / "shards/model.safetensors.index.json").string();
  fs::remove(folder / "shards/model-00002-of-00003.safetensors");
  EXPECT_EQ(
      message(folder / "shards"),
      index + ":1: 'model-00002-of-00003.safetensors' is missing; fetch all files of the model");
}

TEST(BertFolder, MisfitsInSeveralFilesAreThoseOfTheModel) {
  const auto folder = scratch_folder();
  write_shards(folder);
  const auto index = (folder / "model.safetensors.index.json").string();
  auto tree = parse_json(read_file(index), index);
  const auto last = (folder / "model-00001-of-00003.safetensors").string();
  auto tensors = load_safetensors(last).tensors;
  tensors["classifier.weight"] = at::zeros({2, 8});
  save_safetensors(last, tensors);
  tree["weight_map"]["classifier.weight"] = Node::string("model-00001-of-00003.safetensors");
  write_file(index, to_json(tree));
  EXPECT_EQ(message(folder),
            index + ": weights do not fit the model: unexpected classifier.weight");
}

TEST(BertFolder, AnotherMechanismKeepsTheProjections) {
  const auto folder = scratch_folder();
  write_bert(folder / "theirs", bert_tensors());
  const auto found = import_bert(folder / "theirs", yaml("{name: linformer, rank: 4}"));
  const std::pair<const char*, const char*> projections[] = {{"self.query", "query"},
                                                             {"self.key", "key"},
                                                             {"self.value", "value"},
                                                             {"output.dense", "output"}};
  for (const std::string layer : {"0", "1"})
    for (const auto& [theirs, ours] : projections)
      for (const std::string end : {".weight", ".bias"})
        EXPECT_TRUE(
            at::equal(found.weights.at("encoder.layers." + layer + ".mixer." + ours + end),
                      bert_tensors().at("encoder.layer." + layer + ".attention." + theirs + end)))
            << layer << " " << ours << end;
  EXPECT_EQ(found.kept, static_cast<int64_t>(bert_tensors().size()));
  EXPECT_TRUE(found.left_out.empty());
  ASSERT_FALSE(found.anew.empty());
  for (const auto& name : found.anew)
    EXPECT_TRUE(found.weights.at(name).size(-1) == 10) << name;  // along the sequence

  save_bert(found, folder / "theirs", folder / "ours");
  const auto bert = load_bert(folder / "ours");
  bert->eval();
  Context context;
  const auto y = (*bert)(at::ones({2, 7}, at::kLong), {}, context);
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_TRUE(at::equal(bert->named_parameters()["encoder.layers.0.mixer.key.weight"],
                        bert_tensors().at("encoder.layer.0.attention.self.key.weight")));
}

TEST(BertFolder, OneLayerAloneCanBeSwapped) {
  const auto folder = scratch_folder();
  write_bert(folder, bert_tensors());
  const auto found = import_bert(
      folder, yaml("[{name: softmax, layers: 0}, {name: linformer, rank: 4, layers: 1}]"));
  ASSERT_FALSE(found.anew.empty());
  for (const auto& name : found.anew) EXPECT_FALSE(name.starts_with("encoder.layers.0.")) << name;
}

TEST(BertFolder, WeightsWithoutAPlaceAreLeftOut) {
  const auto folder = scratch_folder();
  write_bert(folder, bert_tensors());
  const auto found = import_bert(folder, yaml("{name: fnet}"));
  EXPECT_EQ(found.left_out.size(), 16u);
  for (const auto& name : found.left_out)
    EXPECT_NE(name.find(".attention."), std::string::npos) << name;
  EXPECT_TRUE(found.anew.empty());
  EXPECT_EQ(error_of([&] { import_bert(folder, yaml("{name: linfromer}")); }),
            "--attention: unknown mechanism 'linfromer'; did you mean 'linformer'?");
}

void expect_round_trip(const fs::path& theirs, const fs::path& folder) {
  save_bert(import_bert(theirs), theirs, folder / "ours");
  export_bert(folder / "ours", folder / "back");
  EXPECT_EQ(read_file(folder / "back/model.safetensors"), read_file(theirs / "model.safetensors"));
  EXPECT_EQ(parse_json(read_file(folder / "back/config.json"), "back"),
            parse_json(read_file(theirs / "config.json"), "theirs"));
  EXPECT_EQ(read_file(folder / "back/vocab.txt"), read_file(theirs / "vocab.txt"));
  EXPECT_EQ(read_file(folder / "ours/vocab.txt"), read_file(theirs / "vocab.txt"));
}

TEST(BertFolder, AnExportIsTheImportedFolderBitForBit) {
  const auto folder = scratch_folder();
  auto tensors = bert_tensors();
  tensors["pooler.dense.weight"] = tensors["pooler.dense.weight"].to(at::kBFloat16);
  tensors["pooler.dense.bias"] = tensors["pooler.dense.bias"].to(at::kDouble) / 3;
  write_bert(folder / "theirs", tensors);
  expect_round_trip(folder / "theirs", folder);
}

TEST(BertFolder, ThePublishedFolderComesBackBitForBit) {
  const auto theirs = parity_file("hf/bert-folder");
  const auto folder = scratch_folder();
  expect_round_trip(theirs, folder);
  EXPECT_EQ(read_file(folder / "back/tokenizer.json"), read_file(theirs / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(folder / "back/encodings.json"));
}

TEST(BertFolder, OurFolderGivesTheSameModel) {
  const auto folder = scratch_folder();
  write_bert(folder / "theirs", bert_tensors());
  save_bert(import_bert(folder / "theirs"), folder / "theirs", folder / "ours");
  const auto first = load_bert(folder / "theirs"), second = load_bert(folder / "ours");
  first->eval();
  second->eval();
  Context context;
  const auto ids = at::tensor({1, 2, 3, 4, 5}, at::kLong).view({1, 5});
  EXPECT_NEAR_TENSOR((*second)(ids, {}, context), (*first)(ids, {}, context), kExact);
  EXPECT_EQ(second->config().encoder.block.norm_epsilon, 1e-7);
}

TEST(BertFolder, AnExportRefusesWhatTheirsCannotBe) {
  const auto folder = scratch_folder();
  const auto theirs = folder / "theirs", ours = folder / "ours", back = folder / "back";
  write_bert(theirs, bert_tensors());
  EXPECT_EQ(
      error_of([&] { export_bert(theirs, back); }),
      (theirs / "config.json").string() +
          ": the model is not a BERT: model_type is not \"longbow_bert\"; `longbow import` makes "
          "such a folder");
  save_bert(import_bert(theirs, yaml("{name: linear}")), theirs, ours);
  EXPECT_EQ(error_of([&] { export_bert(ours, back); }),
            (ours / "config.json").string() +
                ": a layer is linear, but Hugging Face's BERT has softmax attention only");
  EXPECT_EQ(error_of([&] { save_bert(import_bert(theirs), theirs, ours); }),
            ours.string() + ": already holds a model; name another folder with --out");
  save_bert(import_bert(theirs, yaml("{name: softmax, head_mask: [1, 0]}")), theirs,
            folder / "masked");
  EXPECT_EQ(error_of([&] { export_bert(folder / "masked", back); }),
            (folder / "masked/config.json").string() +
                ": Hugging Face's BERT has the same attention in every layer and no head_mask");
  EXPECT_FALSE(fs::exists(back));
}

}  // namespace
}  // namespace longbow
