#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "longbow/ops/channel_taps.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

const at::Device kDevice("cuda:0");

struct Sizes {
  int64_t batch, tokens, channels, count, left, columns;
  TapsOutput output = TapsOutput::sum;
};

// y, dz, dtaps and dbias of numbers that were rounded to a type; tokens stand apart in memory.
std::vector<Tensor> results(const Sizes& s, at::ScalarType rounded, at::ScalarType computed,
                            at::Device device) {
  const auto given = [&](at::IntArrayRef sizes, uint64_t seed) {
    return (random_normal(sizes, seed) * 0.5).to(rounded).to(device, computed);
  };
  std::vector<int64_t> shape = {s.channels, s.count};
  if (s.columns > 0) shape.push_back(s.count);
  const auto z = given({s.batch, s.tokens, s.channels + 8}, 1).requires_grad_(),
             taps = given(shape, 2).requires_grad_(),
             bias = given({s.channels}, 3).requires_grad_();
  const auto rows = z.narrow(2, 8, s.channels);
  EXPECT_TRUE(device.is_cpu() || has_channel_taps(rows, taps));
  const auto y = channel_taps(rows, taps, bias, s.left, s.output, s.columns);
  auto found = torch::autograd::grad({y}, {z, taps, bias}, {given(y.sizes(), 4)});
  found.insert(found.begin(), y.detach());
  for (auto& one : found) one = one.cpu().to(at::kDouble);
  return found;
}

void expect_definition(const Sizes& s) {
  for (const auto& [type, rounding] :
       {std::pair{at::kBFloat16, 0x1p-8}, {at::kHalf, 0x1p-11}, {at::kFloat, 0x1p-20}}) {
    SCOPED_TRACE(c10::str(s.tokens, " x ", s.channels, ", ", s.count, " taps, ", s.left,
                          " on the left, ", s.columns, " columns, ", type));
    const auto got = results(s, type, type, kDevice), again = results(s, type, type, kDevice),
               want = results(s, type, at::kDouble, at::kCPU);
    // The slope of SiLU is of a sum that was rounded.
    const double roundings = s.output == TapsOutput::silu ? 4 : 1;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE((got[i] - want[i]).norm().item<double>(),
                roundings * rounding * want[i].norm().item<double>() + 1e-12)
          << i;  // false for NaN
      EXPECT_TRUE(at::equal(got[i], again[i])) << i;
    }
  }
}

TEST(ChannelTapsCuda, AreTheDefinitionOverAnImage) {
  for (const int64_t count : {1, 3, 5, 7}) {
    for (const int64_t channels : {8, 24, 64, 128})
      expect_definition({2, 35, channels, count, count / 2, 7});
    for (const int64_t tokens : {1024, 1000})
      expect_definition({1, tokens, 8, count, count / 2, 32});
    expect_definition({2, 3, 8, count, count / 2, 7});
    expect_definition({2, 90, 72, count, count / 2, 40});
    expect_definition({2, 6, 8, count, count / 2, 1});
  }
}

TEST(ChannelTapsCuda, AreTheDefinitionOverASequence) {
  for (const int64_t count : {1, 3, 5, 7, 16})
    for (const int64_t left : {int64_t{0}, count / 2, count - 1})
      for (const int64_t tokens : {1, 2, 3, 63, 200})
        expect_definition({2, tokens, tokens == 63 ? 72 : 8, count, left, 0});
  expect_definition({600, 70, 8, 4, 3, 0});
}

TEST(ChannelTapsCuda, DoNotReadOtherTokens) {
  const auto given = [](at::IntArrayRef sizes, uint64_t seed) {
    return random_normal(sizes, seed).to(kDevice, at::kFloat);
  };
  for (const int64_t count : {1, 2, 3, 5, 11}) {
    const auto z = given({1, 90, 8}, 1), taps = given({8, count}, 2);
    const auto want = channel_taps(z, taps, {}, count - 1);
    z.narrow(1, 40, 50).fill_(INFINITY);
    EXPECT_TRUE(at::equal(channel_taps(z, taps, {}, count - 1).narrow(1, 0, 40).cpu(),
                          want.narrow(1, 0, 40).cpu()));
  }
}

TEST(ChannelTapsCuda, GoThroughSilu) {
  expect_definition({2, 70, 24, 5, 4, 0, TapsOutput::silu});
  expect_definition({2, 70, 24, 5, 2, 9, TapsOutput::silu});
}

TEST(ChannelTapsCuda, HaveKernelsForFewTapsOfWholePacks) {
  const auto fits = [](int64_t channels, at::IntArrayRef taps, at::ScalarType type) {
    const auto options = at::TensorOptions(kDevice).dtype(type);
    std::vector<int64_t> sizes = {channels};
    sizes.insert(sizes.end(), taps.begin(), taps.end());
    return has_channel_taps(at::zeros({2, 20, channels}, options), at::zeros(sizes, options));
  };
  EXPECT_TRUE(fits(12, {16}, at::kFloat));
  EXPECT_TRUE(fits(8, {7, 7}, at::kHalf));
  EXPECT_FALSE(fits(12, {3}, at::kBFloat16));
  EXPECT_FALSE(fits(8, {17}, at::kFloat));
  EXPECT_FALSE(fits(8, {9, 9}, at::kFloat));
  EXPECT_FALSE(fits(8, {4, 4}, at::kFloat));
  EXPECT_FALSE(fits(8, {3}, at::kDouble));
}

TEST(ChannelTapsCuda, AreTwiceDifferentiable) {
  const auto slope = [](at::Device device) {
    const auto given = [&](at::IntArrayRef sizes, uint64_t seed) {
      return random_normal(sizes, seed).to(device, at::kFloat).requires_grad_();
    };
    const auto z = given({2, 12, 8}, 1), taps = given({8, 3, 3}, 2), bias = given({8}, 3);
    const auto y = channel_taps(z, taps, bias, 1, TapsOutput::sum, 4);
    const auto first = torch::autograd::grad({y.square().sum()}, {z, taps}, {}, true, true);
    return torch::autograd::grad({first[0].square().sum() + first[1].square().sum()}, {z})[0].cpu();
  };
  EXPECT_NEAR_TENSOR(slope(kDevice), slope(at::kCPU), (Tolerance{1e-2, 1e-4}));
}

}  // namespace
}  // namespace longbow
