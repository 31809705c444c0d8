#include "longbow/ops/channel_taps.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor definition(const Tensor& z, const Tensor& taps, const Tensor& bias, int64_t left,
                  TapsOutput output) {
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
          const auto y = convolve(z, taps, bias, s.left, output);
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
}

}  // namespace
}  // namespace longbow
