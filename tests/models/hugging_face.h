#pragma once
// A small BERT folder as Hugging Face writes it, with random weights.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/tensors/safetensors.h"
#include "tests/support/parity.h"
#include "tests/support/tensor.h"

namespace longbow {

// An empty folder of the running test's own.
inline std::filesystem::path scratch_folder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const auto folder = std::filesystem::path(testing::TempDir()) / "longbow_models" /
                      (std::string(test->test_suite_name()) + "." + test->name());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

inline const std::string kBertConfig = R"({
  "architectures": ["BertModel"],
  "attention_probs_dropout_prob": 0.2,
  "hidden_act": "gelu_new",
  "hidden_dropout_prob": 0.3,
  "hidden_size": 8,
  "intermediate_size": 12,
  "layer_norm_eps": 1e-07,
  "max_position_embeddings": 10,
  "model_type": "bert",
  "num_attention_heads": 2,
  "num_hidden_layers": 2,
  "pad_token_id": 0,
  "type_vocab_size": 3,
  "vocab_size": 11
}
)";

inline std::map<std::string, at::Tensor> bert_tensors() {
  std::map<std::string, std::vector<int64_t>> shapes = {
      {"embeddings.word_embeddings.weight", {11, 8}},
      {"embeddings.position_embeddings.weight", {10, 8}},
      {"embeddings.token_type_embeddings.weight", {3, 8}}};
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    shapes[name + ".bias"] = {shape.front()};
    shapes[name + ".weight"] = std::move(shape);
  };
  add("embeddings.LayerNorm", {8});
  add("pooler.dense", {8, 8});
  for (const std::string layer : {"encoder.layer.0.", "encoder.layer.1."}) {
    for (const auto* part : {"self.query", "self.key", "self.value", "output.dense"})
      add(layer + "attention." + part, {8, 8});
    add(layer + "attention.output.LayerNorm", {8});
    add(layer + "intermediate.dense", {12, 8});
    add(layer + "output.dense", {8, 12});
    add(layer + "output.LayerNorm", {8});
  }
  std::map<std::string, at::Tensor> tensors;
  uint64_t seed = 0;
  for (const auto& [name, shape] : shapes)
    tensors[name] = random_normal(shape, ++seed).to(at::kFloat);
  return tensors;
}

inline void write_bert(const std::filesystem::path& folder,
                       const std::map<std::string, at::Tensor>& tensors,
                       const std::string& config = kBertConfig) {
  std::filesystem::create_directories(folder);
  write_file(folder / "config.json", config);
  write_file(folder / "vocab.txt", "[PAD]\n[UNK]\n가\r\n");
  save_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
}

}  // namespace longbow
