#include "longbow/ops/embedding.h"

#include "tests/ops/embeddings.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

Embedded one_by_one(const EmbedInputs& in) {
  Embedded out = {at::zeros_like(in.dy), at::zeros_like(in.words), at::zeros_like(in.positions)};
  for (int64_t b = 0; b < in.tokens.size(0); ++b)
    for (int64_t n = 0; n < in.tokens.size(1); ++n) {
      const auto word = in.tokens[b][n].item<int64_t>();
      out.y[b][n] = in.words[word] + in.positions[n];
      out.dpositions[n] += in.dy[b][n];
      if (word != in.padding) out.dwords[word] += in.dy[b][n];
    }
  return out;
}

TEST(Embed, IsItsDefinition) {
  constexpr Tolerance kClose = {1e-12, 1e-12};
  for (const int64_t padding : {-1, 0, 4}) {
    const EmbedInputs in(5, 3, 2, 21, padding);
    const auto want = one_by_one(in);
    for (const auto& got :
         {embedded(in, at::kDouble, embed), embedded(in, at::kDouble, embed_formula)}) {
      EXPECT_NEAR_TENSOR(got.y, want.y, kExact);
      EXPECT_NEAR_TENSOR(got.dwords, want.dwords, kClose);
      EXPECT_NEAR_TENSOR(got.dpositions, want.dpositions, kClose);
    }
  }
}

TEST(Embed, IsTheSumOfLibTorchsEmbeddingsInEveryType) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const EmbedInputs in(5, 8, 3, 17);
    const auto words = in.words.to(type), positions = in.positions.to(type);
    EXPECT_NEAR_TENSOR(embed(words, in.tokens, -1, positions),
                       at::embedding(words, in.tokens) + at::embedding(positions, at::arange(17)),
                       kExact);
    EXPECT_NEAR_TENSOR(embed(words, in.tokens), at::embedding(words, in.tokens), kExact);
  }
}

TEST(Embed, HasTheGradientOfDifferences) {
  EmbedInputs in(5, 3, 2, 7);
  in.words.requires_grad_();
  in.positions.requires_grad_();
  EXPECT_TRUE(gradcheck([&] { return embed(in.words, in.tokens, -1, in.positions).exp(); },
                        {{"words", in.words}, {"positions", in.positions}}));
  EXPECT_TRUE(gradcheck([&] { return embed(in.words, in.tokens).exp(); }, {{"words", in.words}}));
  const auto slopes = [&] {
    const auto y = embed(in.words, in.tokens, -1, in.positions).exp().sum();
    const auto d = torch::autograd::grad({y}, {in.words, in.positions}, {}, true, true);
    return at::cat({d[0].square(), d[1].square()});
  };
  EXPECT_TRUE(gradcheck(slopes, {{"words", in.words}, {"positions", in.positions}}));
}

// In bfloat16 a sum of ones stops at 256.
TEST(Embed, GradientsAreSumsInFloat32) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto words = at::zeros({2, 8}, type).requires_grad_(),
               positions = at::zeros({1, 8}, type).requires_grad_();
    embed(words, at::ones({2048, 1}, at::kLong), 0, positions).sum().backward();
    EXPECT_NEAR_TENSOR(words.grad()[1], at::full({8}, 2048, type), kExact);
    EXPECT_NEAR_TENSOR(positions.grad(), at::full({1, 8}, 2048, type), kExact);
  }
}

TEST(Embed, DifferentiatesOnlyWhatAsksForIt) {
  const EmbedInputs in(5, 3, 2, 7);
  const auto positions = in.positions.clone().requires_grad_();
  embed(in.words, in.tokens, -1, positions).sum().backward();
  EXPECT_NEAR_TENSOR(positions.grad().narrow(0, 0, 7), at::full({7, 3}, 2.0, at::kDouble), kExact);
  EXPECT_NEAR_TENSOR(positions.grad().narrow(0, 7, 2), at::zeros({2, 3}, at::kDouble), kExact);
  EXPECT_FALSE(embed(in.words, in.tokens, -1, in.positions).requires_grad());
}

TEST(Embed, TakesNoTokens) {
  const auto words = at::ones({3, 8}).requires_grad_(), positions = at::ones({4, 8});
  for (const at::IntArrayRef shape : {at::IntArrayRef({0, 4}), at::IntArrayRef({2, 0})}) {
    const auto y = embed(words, at::zeros(shape, at::kLong), -1, positions);
    EXPECT_EQ(y.numel(), 0);
    EXPECT_NEAR_TENSOR(torch::autograd::grad({y.sum()}, {words})[0], at::zeros({3, 8}), kExact);
  }
}

TEST(Embed, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("embed"), "");
  EXPECT_EQ(missing_kernels("embed_backward"), "");
  const auto words = at::empty({5, 3}, at::kMeta).requires_grad_(),
             positions = at::empty({9, 3}, at::kMeta).requires_grad_();
  const auto y = embed(words, at::empty({2, 7}, words.options().dtype(at::kLong)), -1, positions);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 7, 3}));
  const auto d = torch::autograd::grad({y.sum()}, {words, positions});
  EXPECT_EQ(d[0].sizes(), words.sizes());
  EXPECT_EQ(d[1].sizes(), positions.sizes());
}

TEST(Embed, RefusesWhatDoesNotFit) {
  const auto words = at::zeros({5, 3}), tokens = at::zeros({2, 7}, at::kLong);
  EXPECT_EQ(error_of([&] { embed(words[0], tokens); }), "embed: words are [3], but need [V, C]");
  EXPECT_EQ(error_of([&] { embed(words, tokens[0]); }),
            "embed: tokens are Long [7], but need Long [B, N]");
  EXPECT_EQ(error_of([&] { embed(words, tokens.to(at::kInt)); }),
            "embed: tokens are Int [2, 7], but need Long [B, N]");
  EXPECT_EQ(error_of([&] {
              embed(words, tokens, -1, at::zeros({7, 4}));
            }),
            "embed: words are Float [5, 3], but positions are Float [7, 4]");
  EXPECT_EQ(error_of([&] {
              embed(words, tokens, -1, at::zeros({7, 3}, at::kHalf));
            }),
            "embed: words are Float [5, 3], but positions are Half [7, 3]");
  EXPECT_EQ(error_of([&] {
              embed(words, tokens, -1, at::zeros({6, 3}));
            }),
            "embed: 7 tokens, but 6 positions");
}

}  // namespace
}  // namespace longbow
