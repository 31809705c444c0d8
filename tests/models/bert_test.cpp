#include "longbow/models/bert/bert.h"

#include "longbow/models/bert/bert_folder.h"
#include "tests/models/hugging_face.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

TEST(Bert, ReproducesTheHiddenStatesOfHuggingFace) {
  const auto folder = parity_file("hf/bert-folder");
  const auto expected = load_safetensors(folder / "expected.safetensors").tensors;
  const auto bert = load_bert(folder);
  bert->to(at::kDouble);
  bert->eval();
  const auto ids = expected.at("ids"), types = expected.at("type_ids");
  const auto keep = expected.at("attention_mask").to(at::kBool);
  const Tolerance tight = {1e-12, 1e-12};

  // Padded places as the library fills them: positions go on, and they read the real tokens.
  Context all = {.mask = {.ragged = true, .keep = keep, .query_keep = at::ones_like(keep)}};
  all.positions = at::arange(ids.size(1)).expand_as(ids);
  const auto states = bert->hidden(ids, types, all);
  ASSERT_EQ(static_cast<int64_t>(states.size()), bert->config().encoder.layers + 1);
  EXPECT_NEAR_TENSOR(states.front(), expected.at("hidden_0"), tight);
  EXPECT_NEAR_TENSOR(states.back(), expected.at("last_hidden_state"), tight);
  EXPECT_NEAR_TENSOR(bert->pooled(states.back()), expected.at("pooler_output"), tight);

  Context context = {.mask = Mask::from_lengths(keep.sum(1), ids.size(1))};
  const auto real = keep.unsqueeze(-1).to(at::kDouble);
  const auto last = (*bert)(ids, types, context);
  EXPECT_NEAR_TENSOR(last * real, expected.at("last_hidden_state") * real, tight);
  EXPECT_NEAR_TENSOR(bert->pooled(last), expected.at("pooler_output"), tight);
}

TEST(Bert, ReproducesTheHiddenStatesInFloat32) {
  const auto folder = parity_file("hf/bert-folder");
  const auto expected = load_safetensors(folder / "expected.safetensors").tensors;
  const auto bert = load_bert(folder);
  bert->eval();
  const auto keep = expected.at("attention_mask").to(at::kBool);
  Context context = {.mask = Mask::from_keep(keep)};
  const auto last = (*bert)(expected.at("ids"), expected.at("type_ids"), context);
  const auto real = keep.unsqueeze(-1).to(at::kDouble);
  EXPECT_NEAR_TENSOR(last.to(at::kDouble) * real, expected.at("last_hidden_state") * real,
                     (Tolerance{1e-5, 0}));
}

std::shared_ptr<Bert> small_bert() {
  const auto folder = scratch_folder();
  write_bert(folder, bert_tensors());
  const auto bert = load_bert(folder);
  bert->to(at::kDouble);
  bert->eval();
  return bert;
}

// The formulas of the paper with the tensors as the library names them.
class Formula {
 public:
  Tensor embedded(const Tensor& ids, const Tensor& types) const {
    const auto x = at::embedding(at("embeddings.word_embeddings.weight"), ids) +
                   at("embeddings.position_embeddings.weight").narrow(0, 0, ids.size(1)) +
                   at::embedding(at("embeddings.token_type_embeddings.weight"), types);
    return norm(x, "embeddings.LayerNorm");
  }
  Tensor layer(const Tensor& x, int64_t index) const {
    const auto own = "encoder.layer." + std::to_string(index) + ".";
    std::vector<Tensor> heads;
    for (int64_t head = 0; head < 2; ++head) {
      const auto part = [&](const std::string& name) {
        return linear(x, own + "attention.self." + name).narrow(-1, head * 4, 4);
      };
      const auto scores = part("query").matmul(part("key").transpose(-2, -1)) / 2;
      heads.push_back(scores.softmax(-1).matmul(part("value")));
    }
    const auto u = norm(x + linear(at::cat(heads, -1), own + "attention.output.dense"),
                        own + "attention.output.LayerNorm");
    const auto inner = linear(u, own + "intermediate.dense");
    const auto fed =
        linear(inner * 0.5 * (1 + (std::sqrt(2 / M_PI) * (inner + 0.044715 * inner.pow(3))).tanh()),
               own + "output.dense");
    return norm(u + fed, own + "output.LayerNorm");
  }
  Tensor pooled(const Tensor& x) const { return linear(x.select(1, 0), "pooler.dense").tanh(); }

 private:
  Tensor at(const std::string& name) const { return tensors_.at(name).to(at::kDouble); }
  Tensor linear(const Tensor& x, const std::string& name) const {
    return x.matmul(at(name + ".weight").t()) + at(name + ".bias");
  }
  Tensor norm(const Tensor& x, const std::string& name) const {
    const auto centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-7).sqrt() * at(name + ".weight") +
           at(name + ".bias");
  }
  std::map<std::string, Tensor> tensors_ = bert_tensors();
};

TEST(Bert, EveryLayerIsThatOfTheFormula) {
  const auto bert = small_bert();
  const auto ids = at::tensor({1, 5, 10, 3, 7, 7, 0, 2}, at::kLong).view({2, 4});
  const auto types = at::tensor({0, 0, 1, 2, 1, 1, 0, 2}, at::kLong).view({2, 4});
  const Formula formula;
  Context context;
  const auto states = bert->hidden(ids, types, context);
  ASSERT_EQ(states.size(), 3u);
  auto want = formula.embedded(ids, types);
  for (int64_t layer = 0; layer < 3; ++layer) {
    EXPECT_NEAR_TENSOR(states[static_cast<size_t>(layer)], want, (Tolerance{1e-12, 1e-12}))
        << layer;
    if (layer < 2) want = formula.layer(want, layer);
  }
  EXPECT_NEAR_TENSOR(bert->pooled(want), formula.pooled(want), (Tolerance{1e-12, 1e-12}));
  EXPECT_NEAR_TENSOR((*bert)(ids, types, context), states.back(), kExact);
}

TEST(Bert, TokensWithoutATypeAreOfTheFirst) {
  const auto bert = small_bert();
  const auto ids = at::tensor({1, 5, 10, 3}, at::kLong).view({1, 4});
  Context context;
  const auto untyped = (*bert)(ids, {}, context);
  EXPECT_NEAR_TENSOR(untyped, (*bert)(ids, at::zeros_like(ids), context), kExact);
  EXPECT_FALSE(at::equal(untyped, (*bert)(ids, at::ones_like(ids), context)));
}

TEST(Bert, RefusesWhatItWasNotBuiltFor) {
  const auto bert = small_bert();
  Context context;
  EXPECT_EQ(error_of([&] {
              (*bert)(at::ones({1, 11}, at::kLong), {}, context);
            }),
            "encoder: 11 tokens, but max_length is 10");
  BertConfig config;
  config.encoder.width = 8;
  config.encoder.heads = 2;
  config.encoder.layers = 1;
  config.vocabulary = 5;
  config.pooler = false;
  EXPECT_EQ(error_of([&] {
              Bert(config, 1).pooled(at::zeros({1, 1, 8}));
            }),
            "bert: was built without a pooler");
  config.encoder.heads = 3;
  EXPECT_EQ(error_of([&] { Bert(config, 1); }), "encoder: width 8 is not a multiple of 3 heads");
  config.encoder.heads = 2;
  config.encoder.block.residual = Residual::pre_norm;
  EXPECT_EQ(error_of([&] { Bert(config, 1); }),
            "bert: is not causal, has learned positions up to max_length and post_norm residuals");
}

TEST(Bert, DropsOutAsItsConfigSays) {
  BertConfig config;
  config.encoder.embedding_dropout = 0.1;
  config.encoder.block.dropout = 0.2;
  const auto encoder = encoder_of(config);
  EXPECT_EQ(encoder.embedding_dropout, 0.1);
  EXPECT_EQ(encoder.block.dropout, 0.2);
  EXPECT_EQ(encoder.block.norm_epsilon, 1e-12);
  EXPECT_EQ(encoder.block.residual, Residual::post_norm);
}

}  // namespace
}  // namespace longbow
