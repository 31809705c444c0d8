#include "longbow/nn/slots/length_projection.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kHeads = 2, kWidth = 3, kSlots = 4, kLongest = 12;
const Tolerance kClose = {1e-12, 1e-12};

LengthProjection made(LengthMethod method, bool by_head = false,
                      LengthScale scale = LengthScale::none) {
  LengthProjection p = {method, scale, kSlots, kLongest};
  std::vector<int64_t> shape = {kSlots, kLongest};
  if (method == LengthMethod::convolution) shape = {kWidth, kWidth, p.window()};
  if (by_head) shape.insert(shape.begin(), kHeads);
  if (!p.pools()) p.weight = random_normal(shape, 1);
  return p;
}

Tensor lengths(const std::vector<int64_t>& real, int64_t longest) {
  return Mask::from_lengths(at::tensor(real), longest).keep;
}

TEST(LengthProjection, AMatrixIsAppliedToTheRealRows) {
  const auto x = random_normal({2, kHeads, 9, kWidth}, 2);
  for (const bool by_head : {false, true}) {
    const auto p = made(LengthMethod::learnable, by_head);
    EXPECT_NEAR_TENSOR(p(x, {}), p.weight.narrow(-1, 0, 9).matmul(x), kClose);
    EXPECT_NEAR_TENSOR(p(x, lengths({9, 4}, 9))[1],
                       p.weight.narrow(-1, 0, 4).matmul(x[1].narrow(1, 0, 4)), kClose);
    EXPECT_NEAR_TENSOR(p.mass(9, lengths({9, 4}, 9), x.options())[1].squeeze(-2),
                       p.weight.narrow(-1, 0, 4).abs().sum(-1).view({-1, kSlots}), kClose);
  }
}

TEST(LengthProjection, AMeanCountsRealRowsAndHasNothingInAnEmptyWindow) {
  const auto p = made(LengthMethod::mean_pool, false, LengthScale::mass);
  const auto x = random_normal({2, kHeads, 11, kWidth}, 3);
  const auto keep = lengths({11, 4}, 11);
  const auto y = p(x, keep);
  EXPECT_NEAR_TENSOR(y[0].select(1, 3), x[0].narrow(1, 9, 2).mean(1), kClose);
  EXPECT_NEAR_TENSOR(y[1].select(1, 0), x[1].narrow(1, 0, 3).mean(1), kClose);
  EXPECT_NEAR_TENSOR(y[1].select(1, 1), x[1].select(1, 3), kClose);
  EXPECT_NEAR_TENSOR(y[1].narrow(1, 2, 2), at::zeros({kHeads, 2, kWidth}, at::kDouble), kExact);
  EXPECT_NEAR_TENSOR(p.mass(11, keep, x.options()).view({2, kSlots}),
                     at::tensor({3., 3., 3., 2., 3., 1., 0., 0.}, at::kDouble).view({2, kSlots}),
                     kExact);
}

TEST(LengthProjection, AMaximumLooksAtRealRowsOnly) {
  const auto p = made(LengthMethod::max_pool);
  const auto x = random_normal({1, kHeads, 8, kWidth}, 4) - 10;  // below what stands for nothing
  const auto y = p(x, lengths({4}, 8));
  EXPECT_NEAR_TENSOR(y[0].select(1, 0), x[0].narrow(1, 0, 3).amax(1), kExact);
  EXPECT_NEAR_TENSOR(y[0].select(1, 1), x[0].select(1, 3), kExact);
  EXPECT_NEAR_TENSOR(y[0].narrow(1, 2, 2), at::zeros({kHeads, 2, kWidth}, at::kDouble), kExact);
  EXPECT_NEAR_TENSOR(p(x, {})[0].select(1, 2), x[0].narrow(1, 6, 2).amax(1), kExact);
}

TEST(LengthProjection, AConvolutionIsThatOfLibTorch) {
  const auto x = random_normal({2, kHeads, kLongest, kWidth}, 5);
  const auto convolved = [&](const Tensor& weight, int64_t groups) {
    return at::conv1d(x.flatten(0, 1).transpose(1, 2), weight, {}, at::IntArrayRef{3},
                      at::IntArrayRef{0}, at::IntArrayRef{1}, groups)
        .transpose(1, 2)
        .view({2, kHeads, kSlots, kWidth});
  };
  auto p = made(LengthMethod::convolution);
  EXPECT_NEAR_TENSOR(p(x, {}), convolved(p.weight, 1), kClose);
  p.weight = p.weight.narrow(1, 0, 1);
  EXPECT_NEAR_TENSOR(p(x, {}), convolved(p.weight, kWidth), kClose);
}

TEST(LengthProjection, ABiasIsForSequencesWithRows) {
  const auto keep = lengths({5, 0}, 5);
  auto p = made(LengthMethod::learnable);
  p.bias = random_normal({kSlots}, 6);
  const auto zeros = at::zeros({2, kHeads, kSlots, kWidth}, at::kDouble);
  EXPECT_NEAR_TENSOR(p.with_bias(zeros, keep)[0][1].select(1, 2), p.bias, kExact);
  EXPECT_NEAR_TENSOR(p.with_bias(zeros, keep)[1], zeros[1], kExact);
  p = made(LengthMethod::convolution);
  p.bias = random_normal({kHeads, kWidth}, 7);
  EXPECT_NEAR_TENSOR(p.with_bias(zeros, keep)[0][1][3], p.bias[1], kExact);
}

// After the last row what has grown is the whole; and positions given are positions counted.
TEST(LengthProjection, WhatGrowsBecomesTheWhole) {
  const auto x = random_normal({2, kHeads, 10, kWidth}, 8);
  const auto keep = lengths({10, 7}, 10);
  const auto counted = at::arange(10).unsqueeze(0).expand({2, -1});
  for (const auto method : {LengthMethod::learnable, LengthMethod::convolution,
                            LengthMethod::mean_pool, LengthMethod::fixed_random})
    for (const bool by_head : {false, true})
      for (const auto scale : {LengthScale::none, LengthScale::tokens, LengthScale::mass})
        for (const auto& positions : {Tensor(), counted}) {
          const auto p = made(method, by_head, scale);
          auto grown = p.growth(x, positions, keep, {}, {}, true);
          auto sums = grown_slots(grown.sums);
          if (scale == LengthScale::mass) sums = sums / grown.sums.divisor.slice(2, -1).mT();
          if (scale == LengthScale::tokens)
            sums = sums / at::tensor({10., 7.}, at::kDouble).view({2, 1, 1, 1});
          if (scale != LengthScale::none || method != LengthMethod::mean_pool)
            EXPECT_NEAR_TENSOR(sums, p(x, keep), kClose) << static_cast<int>(method);
          EXPECT_NEAR_TENSOR(grown.mass.slice(2, -1).expand({2, -1, -1, -1}),
                             p.mass(10, keep, x.options()), kClose);
        }
}

TEST(LengthProjection, StartsAsAsked) {
  const Site site = {.seed = 3};
  const auto start = [&](at::IntArrayRef shape, LengthMethod method, LengthStart how) {
    return initial_length_weight(site, "e", shape, method, how).to(at::kDouble);
  };
  const auto learnable = LengthMethod::learnable, convolution = LengthMethod::convolution;
  EXPECT_NEAR(start({200, 300}, learnable, LengthStart::xavier_normal).std().item<double>(),
              std::sqrt(2.0 / 500), 1e-3);
  const auto uniform = start({200, 400}, learnable, LengthStart::uniform);
  EXPECT_LE(uniform.abs().max().item<double>(), 0.05);
  EXPECT_GT(uniform.abs().max().item<double>(), 0.0499);
  const auto x = random_normal({2, kHeads, kLongest, kWidth}, 9);
  const auto mean = made(LengthMethod::mean_pool, false, LengthScale::mass)(x, {});
  auto p = made(learnable);
  p.weight = start({kSlots, kLongest}, learnable, LengthStart::block_average);
  EXPECT_NEAR_TENSOR(p(x, {}), mean, (Tolerance{1e-7, 1e-7}));
  p = made(convolution);
  for (const int64_t inputs : {kWidth, int64_t{1}}) {
    p.weight = start({kHeads, kWidth, inputs, 3}, convolution, LengthStart::block_average);
    EXPECT_NEAR_TENSOR(p(x, {}), mean, (Tolerance{1e-7, 1e-7}));
  }
}

}  // namespace
}  // namespace longbow
