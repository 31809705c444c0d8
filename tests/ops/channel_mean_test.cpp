#include "longbow/ops/channel_mean.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

constexpr int64_t kBatch = 3, kTokens = 5, kChannels = 6;

Tensor holes() {  // the last sequence has no token
  return at::tensor({1, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, at::kLong)
      .to(at::kBool)
      .view({kBatch, kTokens});
}

// By the definition, number by number.
Tensor weighed(const Tensor& k, const Tensor& v, const Tensor& keep) {
  auto mean = at::zeros({v.size(0), v.size(2)}, at::kDouble);
  const int64_t group = v.size(2) / k.size(2);
  for (int64_t b = 0; b < v.size(0); ++b)
    for (int64_t c = 0; c < v.size(2); ++c) {
      double sum = 0, whole = 0;
      for (int64_t n = 0; n < v.size(1); ++n) {
        if (keep.defined() && !keep[b][n].item<bool>()) continue;
        const double weight = std::exp(k[b][n][c / group].item<double>());
        sum += weight;
        whole += weight * v[b][n][c].item<double>();
      }
      if (sum > 0) mean[b][c] = whole / sum;
    }
  return mean;
}

TEST(ChannelMean, AMaskThatChangedBeforeTheBackwardPassIsAnError) {
  const auto k = random_normal({2, 5, 6}, 1).requires_grad_();
  const auto keep = at::ones({2, 5}, at::kBool);
  const auto out = channel_mean(k, k, keep);
  keep.logical_not_();
  EXPECT_NE(error_of([&] { out.sum().backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(ChannelMean, IsItsDefinition) {
  for (const int64_t group : {1, 2, 6})
    for (const auto& keep : {Tensor(), holes()}) {
      const auto k = random_normal({kBatch, kTokens, kChannels / group}, 1),
                 v = random_normal({kBatch, kTokens, kChannels}, 2);
      EXPECT_NEAR_TENSOR(channel_mean(k, v, keep), weighed(k, v, keep), (Tolerance{1e-12, 1e-12}))
          << group;
    }
}

TEST(ChannelMean, LargeScoresDoNotOverflow) {
  const auto k = random_normal({1, kTokens, 2}, 1) * 1e4, v = random_normal({1, kTokens, 2}, 2);
  const auto best = v.gather(1, k.argmax(1, true)).squeeze(1);
  EXPECT_NEAR_TENSOR(channel_mean(k.to(at::kFloat), v.to(at::kFloat)), best.to(at::kFloat),
                     (Tolerance{1e-6, 1e-6}));
}

TEST(ChannelMean, GradientsAreThoseOfDifferences) {
  for (const int64_t group : {1, 3})
    for (const auto& keep : {Tensor(), holes()}) {
      const auto k = random_normal({kBatch, kTokens, kChannels / group}, 1).requires_grad_(),
                 v = random_normal({kBatch, kTokens, kChannels}, 2).requires_grad_();
      EXPECT_TRUE(gradcheck([&] { return channel_mean(k, v, keep); }, {{"k", k}, {"v", v}}));
    }
}

TEST(ChannelMean, HasASecondDerivative) {
  const auto k = random_normal({1, kTokens, 2}, 1).requires_grad_(),
             v = random_normal({1, kTokens, 4}, 2).requires_grad_();
  EXPECT_TRUE(gradcheck(
      [&] {
        const auto y = channel_mean(k, v).square().sum();
        const auto first = torch::autograd::grad({y}, {k, v}, {}, true, true);
        return at::cat({first[0].flatten(), first[1].flatten()});
      },
      {{"k", k}, {"v", v}}));
}

TEST(ChannelMean, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("channel_mean"), "");
  EXPECT_EQ(missing_kernels("channel_mean_backward"), "");
}

TEST(ChannelMean, RefusesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              channel_mean(at::zeros({2, 3, 4}), at::zeros({2, 3, 6}));
            }),
            "channel_mean: k is [2, 3, 4] Float but v is [2, 3, 6] Float");
  EXPECT_EQ(error_of([] {
              channel_mean(at::zeros({2, 3, 4}), at::zeros({2, 3, 4}), at::ones({2, 4}, at::kBool));
            }),
            "channel_mean: v is [2, 3, 4] but keep is [2, 4]");
}

}  // namespace
}  // namespace longbow
