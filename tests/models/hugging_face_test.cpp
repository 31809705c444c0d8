#include "longbow/models/bert/hugging_face.h"

#include "tests/models/hugging_face.h"

namespace longbow {
namespace {

Node json(const std::string& text) {
  return parse_json(text, "config.json");
}

TEST(HuggingFace, ItsConfigIsTakenOver) {
  const auto config = bert_from_hugging_face(json(kBertConfig));
  const auto& encoder = config.encoder;
  EXPECT_EQ(encoder.width, 8);
  EXPECT_EQ(encoder.heads, 2);
  EXPECT_EQ(encoder.layers, 2);
  EXPECT_EQ(encoder.max_length, 10);
  EXPECT_EQ(encoder.embedding_dropout, 0.3);
  EXPECT_EQ(encoder.block.dropout, 0.3);
  EXPECT_EQ(encoder.block.norm_epsilon, 1e-7);
  EXPECT_EQ(encoder.block.residual, Residual::post_norm);
  EXPECT_EQ(encoder.block.feed_forward.width, 12);
  EXPECT_EQ(encoder.block.feed_forward.activation, Activation::gelu_tanh);
  EXPECT_EQ(to_json(encoder.attention), R"({"name":"softmax","dropout":0.2})");
  EXPECT_EQ(config.vocabulary, 11);
  EXPECT_EQ(config.token_types, 3);
}

TEST(HuggingFace, ItsConfigComesBackWithEverythingElseItSaid) {
  const auto tree = json(kBertConfig);
  const auto config = bert_from_hugging_face(tree);
  EXPECT_EQ(bert_to_hugging_face(config, tree), tree);
  auto wider = config;
  wider.encoder.block.feed_forward.width = 16;
  wider.encoder.block.feed_forward.activation = Activation::relu;
  const auto changed = bert_to_hugging_face(wider, tree);
  EXPECT_EQ(changed.find("intermediate_size")->text, "16");
  EXPECT_EQ(changed.find("hidden_act")->text, "relu");
  EXPECT_EQ(changed.find("pad_token_id")->text, "0");
  EXPECT_EQ(bert_from_hugging_face(bert_to_hugging_face(config, {})).encoder.heads, 2);
}

TEST(HuggingFace, ExactAndTanhGeluAreToldApart) {
  const auto activation = [](const std::string& name) {
    return bert_from_hugging_face(json(R"({"model_type": "bert", "hidden_act": ")" + name + "\"}"))
        .encoder.block.feed_forward.activation;
  };
  EXPECT_EQ(activation("gelu"), Activation::gelu);
  for (const auto* name : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"})
    EXPECT_EQ(activation(name), Activation::gelu_tanh) << name;
  EXPECT_EQ(activation("relu"), Activation::relu);
  EXPECT_EQ(activation("silu"), Activation::silu);
}

TEST(HuggingFace, EveryConfigThatIsNoneOfOursSaysWhere) {
  const auto refused = [](const std::string& text) {
    return error_of([&] { bert_from_hugging_face(json(text)); });
  };
  EXPECT_EQ(refused("{}"), "config.json:1: model_type is missing; a BERT says \"bert\"");
  EXPECT_EQ(refused("{\n\"model_type\": \"roberta\"}"),
            "config.json:2: model_type is 'roberta'; only 'bert' can be imported");
  EXPECT_EQ(refused(R"({"model_type": "bert", "position_embedding_type": "relative_key"})"),
            "config.json:1: position_embedding_type is 'relative_key'; only 'absolute' can be "
            "imported");
  EXPECT_EQ(refused(R"({"model_type": "bert", "is_decoder": true})"),
            "config.json:1: is_decoder is 'true'; only 'false' can be imported");
  EXPECT_EQ(refused(R"({"model_type": "bert", "hidden_act": "gleu"})"),
            "config.json:1: unknown hidden_act 'gleu'; did you mean 'gelu'?");
  EXPECT_EQ(refused(R"({"model_type": "bert", "hidden_size": 10, "num_attention_heads": 4})"),
            "config.json:1: hidden_size 10 is not a multiple of 4 heads");
  EXPECT_TRUE(refused("{\"model_type\": \"bert\",\n\"vocab_size\": 0}")
                  .starts_with("config.json:2: vocab_size is 0, out of range"));
}

TEST(HuggingFace, EveryWeightOfTheirsHasOneNameHere) {
  const auto config = bert_from_hugging_face(json(kBertConfig));
  std::map<std::string, std::string> ours;
  for (const auto& name : bert_weight_names(config)) ours[name.theirs] = name.ours;
  for (const auto& [name, tensor] : bert_tensors()) EXPECT_TRUE(ours.count(name)) << name;
  EXPECT_EQ(ours.size(), bert_tensors().size());
  EXPECT_EQ(ours.at("encoder.layer.1.attention.self.key.bias"), "encoder.layers.1.mixer.key.bias");
}

}  // namespace
}  // namespace longbow
