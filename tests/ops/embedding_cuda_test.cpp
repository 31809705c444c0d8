#include <string>

#include "tests/ops/embeddings.h"

namespace longbow {
namespace {

const at::Device kDevice("cuda:0");

struct Kind {
  at::ScalarType type;
  double rounding;
};
constexpr Kind kKinds[] = {{at::kFloat, 1e-6}, {at::kBFloat16, 0x1p-8}, {at::kHalf, 0x1p-11}};

// The definition in float64 of numbers that were rounded to the type; the result is rounded once.
TEST(EmbedCuda, IsItsDefinitionForAllTablesAndTypes) {
  for (const auto& [type, rounding] : kKinds)
    for (const int64_t count : {3, 16, 256, 257, 1000, 1030})
      for (const int64_t width : {16, 64, 128, 20}) {
        SCOPED_TRACE(std::to_string(count) + " x " + std::to_string(width) + " " +
                     c10::toString(type));
        EmbedInputs in(count, width, 5, 201, count == 16 ? -1 : 2);
        in.round_to(type);
        const auto want = embedded(in, at::kDouble, embed_formula);
        const auto options = at::TensorOptions(type).device(kDevice);
        const auto got = embedded(in, options, embed), again = embedded(in, options, embed);
        const Tolerance once = {0, rounding}, sums = {1e-4, rounding};
        EXPECT_NEAR_TENSOR(got.y, want.y, once);
        EXPECT_NEAR_TENSOR(got.dwords, want.dwords, sums);
        EXPECT_NEAR_TENSOR(got.dpositions, want.dpositions, sums);
        EXPECT_NEAR_TENSOR(again.y, got.y, kExact);
        EXPECT_NEAR_TENSOR(again.dwords, got.dwords, kExact);
      }
}

TEST(EmbedCuda, AddsUpManyTokens) {
  for (auto in : {EmbedInputs(257, 64, 67, 1001, 0), EmbedInputs(1000, 16, 131, 1001)}) {
    in.round_to(at::kBFloat16);
    const auto want = embedded(in, at::kDouble, embed_formula);
    const auto got = embedded(in, at::TensorOptions(at::kBFloat16).device(kDevice), embed);
    EXPECT_NEAR_TENSOR(got.y, want.y, (Tolerance{0, 0x1p-8}));
    EXPECT_NEAR_TENSOR(got.dwords, want.dwords, (Tolerance{1e-3, 0x1p-8}));
    EXPECT_NEAR_TENSOR(got.dpositions, want.dpositions, (Tolerance{1e-3, 0x1p-8}));
  }
}

TEST(EmbedCuda, TakesWordsAloneAndRowsWithGapsAndOddAddresses) {
  for (const auto& [type, rounding] : kKinds) {
    const auto all = random_normal({9, 73}, 1).to(type).to(kDevice);
    const auto tokens = EmbedInputs(9, 64, 3, 14).tokens.to(kDevice);
    for (const auto& words : {all.narrow(1, 0, 64), all.narrow(1, 1, 64),
                              all.flatten().narrow(0, 1, 576).view({9, 64})})
      for (const auto& given :
           {tokens, tokens.t(), tokens.narrow(1, 3, 5), tokens.narrow(1, 0, 0)}) {
        const auto host = words.cpu(), places = given.cpu();
        EXPECT_NEAR_TENSOR(embed(words, given).cpu(), at::embedding(host, places), kExact);
        EXPECT_NEAR_TENSOR(embed(words, given, -1, all.slice(1, 8, 72).repeat({2, 1})).cpu(),
                           embed(host, places, -1, all.cpu().slice(1, 8, 72).repeat({2, 1})),
                           kExact);
      }
  }
}

// LibTorch stops the program; here nothing outside of the table is read.
TEST(EmbedCuda, ATokenOutsideOfTheTableGivesNanAndNoGradient) {
  const auto options = at::TensorOptions(at::kBFloat16).device(kDevice);
  const auto words = at::ones({20, 16}, options).requires_grad_();
  auto tokens = at::tensor({3, 20, -1, 0, 19}, at::kLong).view({1, 5});
  tokens[0][3] = int64_t{1} << 40;
  const auto y = embed(words, tokens.to(kDevice));
  EXPECT_NEAR_TENSOR(y.detach().isnan().all(-1).cpu().to(at::kLong),
                     at::tensor({0, 1, 1, 1, 0}, at::kLong).view({1, 5}), kExact);
  const auto d = torch::autograd::grad({y}, {words}, {at::ones_like(y)})[0].cpu();
  auto want = at::zeros({20, 16}, at::kBFloat16);
  want[3].fill_(1);
  want[19].fill_(1);
  EXPECT_NEAR_TENSOR(d, want, kExact);
}

TEST(EmbedCuda, HasASecondDerivative) {
  const EmbedInputs in(5, 16, 2, 7);
  const auto second = [&](const at::TensorOptions& options) {
    const auto words = in.words.to(options).requires_grad_();
    const auto y = embed(words, in.tokens.to(options.device()), 1, in.positions.to(options));
    const auto d = torch::autograd::grad({y.pow(3).sum()}, {words}, {}, true, true)[0];
    return torch::autograd::grad({d.square().sum()}, {words})[0].cpu().to(at::kDouble);
  };
  EXPECT_NEAR_TENSOR(second(at::TensorOptions(at::kFloat).device(kDevice)), second(at::kDouble),
                     (Tolerance{1e-3, 1e-4}));
}

}  // namespace
}  // namespace longbow
