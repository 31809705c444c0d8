#include "longbow/models/bert/bert_encoder.h"

#include "longbow/models/bert/bert_folder.h"
#include "tests/models/hugging_face.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

// The encoder that takes over everything a BERT has but its pooler.
Encoder encoder_from(const Bert& bert) {
  Tensors weights;
  for (const auto& entry : bert.named_parameters()) weights[entry.key()] = entry.value();
  weights = encoder_weights(weights);
  Encoder encoder(encoder_of(bert.config()), bert.config().vocabulary, 7);
  const at::NoGradGuard no_grad;
  size_t used = 0;
  for (auto& entry : encoder.named_parameters()) {
    entry.value().copy_(weights.at("encoder." + entry.key()));
    ++used;
  }
  for (const auto* end : {"weight", "bias"})
    used += weights.count(std::string("pooler.dense.") + end);
  EXPECT_EQ(used, weights.size()) << "every weight has its place";
  encoder.eval();
  return encoder;
}

void expect_same(const fs::path& folder) {
  const auto bert = load_bert(folder);
  bert->eval();
  auto encoder = encoder_from(*bert);
  const int64_t words = bert->config().vocabulary, types = bert->config().token_types;
  const auto ids = at::arange(24).remainder(words).view({3, 8}),
             segments = at::arange(24).remainder(types).view({3, 8});
  const auto mask = Mask::from_lengths(at::tensor({8, 5, 1}, at::kLong), 8);
  Context theirs = {.mask = mask}, ours = {.mask = mask, .segments = segments};
  EXPECT_NEAR_TENSOR(encoder(ids, ours), (*bert)(ids, segments, theirs), (Tolerance{1e-6, 1e-6}));
  theirs = ours = {.mask = mask};
  EXPECT_NEAR_TENSOR(encoder(ids, ours), (*bert)(ids, {}, theirs), (Tolerance{1e-6, 1e-6}));
}

TEST(BertEncoder, IsTheSameFunction) {
  const auto folder = scratch_folder();
  write_bert(folder, bert_tensors());
  expect_same(folder);
}

TEST(BertEncoder, IsTheSameFunctionForThePublishedFolder) {
  const auto folder = parity_folder() / "bert-folder";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there; name it in LONGBOW_PARITY";
  expect_same(folder);
}

TEST(BertEncoder, DropsOutAsBertDoes) {
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
