#include "longbow/models/linformer_pytorch/visualizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(Visualizer, GivesTheWeightsOfEveryHeadOfEveryLayer) {
  const auto net = std::make_shared<Linformer>(
      LinformerConfig{.input_size = 12, .channels = 8, .dim_k = 4, .nhead = 2, .depth = 3}, 1);
  net->eval();
  const auto x = random_normal({2, 12, 8}, 1).to(at::kFloat);
  const auto maps = Visualizer(net)(x);
  ASSERT_EQ(maps.size(), 6u);
  Tensors want;
  (*net)(x, {.maps = &want});
  for (size_t i = 0; i < maps.size(); ++i) {
    const auto& map = maps[i];
    EXPECT_EQ(map.layer, static_cast<int64_t>(i) / 2);
    EXPECT_EQ(map.head, static_cast<int64_t>(i) % 2);
    ASSERT_EQ(map.queries, 12);
    ASSERT_EQ(map.slots, 4);
    const auto path = net->attentions()[i / 2].path;
    EXPECT_NEAR_TENSOR(at::tensor(map.weights).view({12, 4}), want.at(path)[0][map.head], kExact);
  }
}

TEST(Visualizer, ShowsTheFirstQueriesOfAModelOverTokens) {
  LinformerLMConfig config;
  config.num_tokens = 9;
  config.input_size = 12;
  config.channels = 8;
  config.nhead = 2;
  config.depth = 1;
  config.full_attention = config.causal = true;
  const auto net = std::make_shared<LinformerLM>(config, 1);
  net->eval();
  const auto maps = Visualizer(net)(at::arange(12).remainder(9).unsqueeze(0), {}, 5);
  ASSERT_EQ(maps.size(), 2u);
  ASSERT_EQ(maps[0].queries, 5);
  ASSERT_EQ(maps[0].slots, 12);
  for (size_t i = 0; i < 5; ++i) {
    double sum = 0;
    for (size_t j = 0; j < 12; ++j) {
      sum += maps[0].weights[i * 12 + j];
      if (j > i) EXPECT_EQ(maps[0].weights[i * 12 + j], 0);
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(Visualizer, ADecoderHasTwoAttentionsInALayer) {
  const auto net = std::make_shared<Linformer>(LinformerConfig{.input_size = 12,
                                                               .channels = 8,
                                                               .dim_k = 4,
                                                               .nhead = 1,
                                                               .depth = 2,
                                                               .decoder_mode = true},
                                               1);
  net->eval();
  const auto x = random_normal({1, 12, 8}, 1).to(at::kFloat);
  const auto maps = Visualizer(net)(x, {.embeddings = x});
  ASSERT_EQ(maps.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(maps[i].layer, static_cast<int64_t>(i) / 2);
    EXPECT_EQ(maps[i].cross, i % 2 == 1);
  }
}

}  // namespace
}  // namespace longbow
