#include "longbow/ops/channel_taps.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor definition(const Tensor& z, const Tensor& taps, const Tensor& bias, int64_t left,
                  TapsOutput output, int64_t = 0) {
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < z.size(1); ++t) {
    auto sum =
        bias.defined() ? bias.expand({z.size(0), z.size(2)}) : at::zeros_like(z.select(1, 0));
    for (int64_t j = 0; j < taps.size(1); ++j)
      if (const int64_t from = t + j - left; from >= 0 && from < z.size(1))
        sum = sum + z.select(1, from) * taps.select(1, j);
    rows.push_back(output == TapsOutput::silu ? at::silu(sum) : sum);
  }
  return at::stack(rows, 1);
}

TEST(ChannelTaps, AreTheirDefinitionAndItsGradients) {
  struct Shape {
    int64_t batch, tokens, channels, taps, left;
  };
  for (const auto& s : {Shape{2, 70, 5, 4, 3}, Shape{1, 130, 33, 3, 1}, Shape{3, 2, 16, 7, 0},
                        Shape{1, 1, 1, 1, 0}, Shape{2, 65, 40, 31, 15}})
    for (const auto output : {TapsOutput::sum, TapsOutput::silu})
      for (const bool biased : {false, true}) {
        // Rows of a wider tensor.
        const auto z = random_normal({s.batch, s.tokens, s.channels + 3}, 1)
                           .narrow(2, 2, s.channels)
                           .requires_grad_(),
                   taps = random_normal({s.channels, s.taps}, 2).requires_grad_(),
                   bias = biased ? random_normal({s.channels}, 3).requires_grad_() : Tensor(),
                   direction = random_normal({s.batch, s.tokens, s.channels}, 4);
        std::vector<Tensor> leaves = {z, taps};
        if (biased) leaves.push_back(bias);
        const auto results = [&](const auto& convolve) {
          const auto y = convolve(z, taps, bias, s.left, output, 0);
          auto found = torch::autograd::grad({(y * direction).sum()}, leaves);
          found.push_back(y.detach());
          return found;
        };
        const auto got = results(channel_taps), want = results(definition);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble))
              << "result " << i << " of " << s.taps << " taps";
        const auto single =
            channel_taps(z.detach().to(at::kFloat), taps.detach().to(at::kFloat),
                         biased ? bias.detach().to(at::kFloat) : bias, s.left, output);
        EXPECT_NEAR_TENSOR(single.to(at::kDouble), want.back(), (Tolerance{1e-5, 1e-5}));
      }
}

// By loops over the pixels and the taps.
Tensor image_definition(const Tensor& z, const Tensor& taps, const Tensor& bias, int64_t columns) {
  const int64_t n = z.size(1), count = taps.size(1);
  std::vector<Tensor> pixels;
  for (int64_t t = 0; t < n; ++t) {
    auto sum =
        bias.defined() ? bias.expand({z.size(0), z.size(2)}) : at::zeros_like(z.select(1, 0));
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < count; ++j) {
        const int64_t row = t / columns + i - count / 2, column = t % columns + j - count / 2,
                      from = row * columns + column;
        if (row >= 0 && column >= 0 && column < columns && from < n)
          sum = sum + z.select(1, from) * taps.select(1, i).select(1, j);
      }
    pixels.push_back(sum);
  }
  return at::stack(pixels, 1);
}

TEST(ChannelTaps, AreTheirDefinitionOverAnImage) {
  struct Shape {
    int64_t tokens, columns, count;
  };
  for (const auto& s : {Shape{35, 7, 5}, Shape{31, 7, 3}, Shape{3, 7, 5}, Shape{6, 1, 3},
                        Shape{20, 4, 1}, Shape{30, 5, 7}})
    for (const bool biased : {false, true})
      for (const auto output : {TapsOutput::sum, TapsOutput::silu}) {
        SCOPED_TRACE(c10::str(s.tokens, " tokens, ", s.columns, " columns, ", s.count, " taps"));
        const auto z = random_normal({2, s.tokens, 3 + 2}, 1).narrow(2, 1, 3).requires_grad_(),
                   taps = random_normal({3, s.count, s.count}, 2).requires_grad_(),
                   bias = biased ? random_normal({3}, 3).requires_grad_() : Tensor();
        const auto got = channel_taps(z, taps, bias, s.count / 2, output, s.columns),
                   sum = image_definition(z, taps, bias, s.columns),
                   want = output == TapsOutput::silu ? at::silu(sum) : sum;
        EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
        std::vector<Tensor> leaves = {z, taps};
        if (biased) leaves.push_back(bias);
        const auto slope = random_normal(got.sizes(), 4);
        const auto wanted = torch::autograd::grad({want}, leaves, {slope}),
                   found = torch::autograd::grad({got}, leaves, {slope});
        const auto [dz, dtaps, dbias] =
            channel_taps_formula_backward(slope, z, taps, bias, s.count / 2, output, s.columns);
        const std::vector<Tensor> formula = {dz, dtaps, dbias};
        for (size_t i = 0; i < leaves.size(); ++i) {
          EXPECT_NEAR_TENSOR(found[i], wanted[i], tolerance(at::kDouble)) << i;
          EXPECT_NEAR_TENSOR(formula[i], wanted[i], tolerance(at::kDouble)) << i;
        }
      }
}

TEST(ChannelTaps, AreTheFormula) {
  for (const int64_t left : {0, 1, 3}) {
    const auto z = random_normal({2, 9, 5}, 1), taps = random_normal({5, 4}, 2),
               bias = random_normal({5}, 3);
    EXPECT_NEAR_TENSOR(channel_taps(z, taps, bias, left),
                       channel_taps_formula(z, taps, bias, left, TapsOutput::sum, 0),
                       tolerance(at::kDouble));
    const auto half = [](const Tensor& x) { return x.to(at::kBFloat16); };
    EXPECT_FALSE(has_channel_taps(half(z), half(taps)));
    EXPECT_NEAR_TENSOR(channel_taps(half(z), half(taps), half(bias), left).to(at::kDouble),
                       channel_taps(half(z).to(at::kDouble), half(taps).to(at::kDouble),
                                    half(bias).to(at::kDouble), left),
                       tolerance(at::kBFloat16));
  }
}

TEST(ChannelTaps, AreRegistered) {
  EXPECT_EQ(missing_kernels("channel_taps"), "");
  EXPECT_EQ(missing_kernels("channel_taps_backward"), "");
}

TEST(ChannelTaps, OfAnImageAreTwiceDifferentiable) {
  const auto z = random_normal({2, 11, 2}, 1).requires_grad_(),
             taps = random_normal({2, 3, 3}, 2).requires_grad_(),
             bias = random_normal({2}, 3).requires_grad_();
  const auto y = [&] { return channel_taps(z, taps, bias, 1, TapsOutput::sum, 4); };
  EXPECT_TRUE(gradcheck(y, {{"z", z}, {"taps", taps}, {"bias", bias}}));
  const auto slopes = [&] {
    const auto found = torch::autograd::grad({y().exp().sum()}, {z, taps, bias}, {}, true,
                                             /*create_graph=*/true);
    return at::cat({found[0].flatten(), found[1].flatten(), found[2].flatten()});
  };
  EXPECT_TRUE(gradcheck(slopes, {{"z", z}, {"taps", taps}, {"bias", bias}}));
}

TEST(ChannelTaps, AreTwiceDifferentiable) {
  const auto z = random_normal({2, 6, 3}, 1).requires_grad_(),
             taps = random_normal({3, 4}, 2).requires_grad_(),
             bias = random_normal({3}, 3).requires_grad_(), direction = random_normal({2, 6, 3}, 4);
  for (const auto output : {TapsOutput::sum, TapsOutput::silu}) {
    const auto slopes = [&] {
      const auto y = channel_taps(z, taps, bias, 2, output);
      const auto found = torch::autograd::grad({(y * direction).sum()}, {z, taps, bias}, {}, true,
                                               /*create_graph=*/true);
      return at::cat({found[0].flatten(), found[1].flatten(), found[2].flatten()});
    };
    EXPECT_TRUE(gradcheck(slopes, {{"z", z}, {"taps", taps}, {"bias", bias}}));
  }
}

TEST(ChannelTaps, RefuseOtherShapes) {
  const auto z = random_normal({2, 7, 3}, 1);
  EXPECT_EQ(error_of([&] {
              (void)channel_taps(z, random_normal({2, 4}, 2), {}, 0);
            }),
            "channel_taps: z is [2, 7, 3] Double, taps are [2, 4] Double with 0 on the left");
  EXPECT_EQ(error_of([&] {
              (void)channel_taps(z, random_normal({3, 4}, 2), {}, 4);
            }),
            "channel_taps: z is [2, 7, 3] Double, taps are [3, 4] Double with 4 on the left");
  EXPECT_EQ(error_of([&] {
              (void)channel_taps(z, random_normal({3, 4, 4}, 2), {}, 2, TapsOutput::sum, 5);
            }),
            "channel_taps: z is [2, 7, 3] Double, taps are [3, 4, 4] Double with 2 on the left, 5 "
            "columns");
}

}  // namespace
}  // namespace longbow
