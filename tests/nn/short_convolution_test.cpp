#include "longbow/nn/layers/short_convolution.h"

#include <ATen/ATen.h>

#include "longbow/core/option_error.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kBatch = 2, kTokens = 9, kChannels = 3;
const Tolerance kClose = {1e-12, 1e-12};

struct Subject {
  std::shared_ptr<ShortConvolution> module;
  Tensor weight, bias;
};

Subject convolution(int64_t width, int64_t columns = 0) {
  const Site site = {.shape = {.width = kChannels}, .path = "block.convolution", .seed = 1};
  Subject made = {std::make_shared<ShortConvolution>(site, width, columns), {}, {}};
  made.module->to(at::kDouble);
  made.weight = made.module->named_parameters()["weight"];
  made.bias = made.module->named_parameters()["bias"];
  const at::NoGradGuard no_grad;
  made.bias.copy_(random_normal({kChannels}, 5));
  return made;
}

Tensor input() {
  return random_normal({kBatch, kTokens, kChannels}, 3);
}

// One row x [N, C] of real tokens, by the definition.
Tensor convolved(const Subject& subject, const Tensor& x, bool causal) {
  const int64_t width = subject.weight.size(1), left = causal ? width - 1 : (width - 1) / 2;
  auto y = subject.bias.detach().expand_as(x).clone();
  for (int64_t t = 0; t < x.size(0); ++t)
    for (int64_t j = 0; j < width; ++j)
      if (const int64_t s = t + j - left; s >= 0 && s < x.size(0))
        y[t] += subject.weight.detach().select(1, j) * x[s];
  return y;
}

TEST(ShortConvolution, IsOverThePastOrAroundAToken) {
  for (const int64_t width : {1, 2, 5, 20})
    for (const bool causal : {false, true}) {
      const auto subject = convolution(width);
      const Context context = {.mask = {.causal = causal}};
      const auto x = input(), y = (*subject.module)(x, context);
      for (int64_t b = 0; b < kBatch; ++b)
        EXPECT_NEAR_TENSOR(y[b], convolved(subject, x[b], causal), kClose) << width << causal;
    }
}

Tensor holes() {
  return at::tensor({1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1, 0, 0}, at::kLong)
      .to(at::kBool)
      .view({kBatch, kTokens});
}

TEST(ShortConvolution, PaddedTokensTakeNoPlace) {
  const auto subject = convolution(5);
  for (const bool causal : {false, true}) {
    const auto keep = holes(), x = input();
    Context context = {.mask = Mask::from_keep(keep)};
    context.mask.causal = causal;
    const auto y = (*subject.module)(x, context);
    for (int64_t b = 0; b < kBatch; ++b)
      EXPECT_NEAR_TENSOR(y[b].index({keep[b]}), convolved(subject, x[b].index({keep[b]}), causal),
                         kClose);
    Context right = {.mask = Mask::from_lengths(at::tensor({9, 4}, at::kLong), kTokens)};
    right.mask.causal = causal;
    EXPECT_NEAR_TENSOR((*subject.module)(x, right)[1].narrow(0, 0, 4),
                       convolved(subject, x[1].narrow(0, 0, 4), causal), kClose);
  }
}

TEST(ShortConvolution, AnySplitIntoExtensionsIsTheCausalPass) {
  for (const int64_t width : {1, 4})
    for (const auto& keep : {Tensor(), holes()})
      for (const auto& split : std::vector<std::vector<int64_t>>{{9}, {2, 6, 1}, {1, 1, 1, 1, 5}}) {
        const auto subject = convolution(width);
        const auto x = input();
        Context whole = {.mask = keep.defined() ? Mask::from_keep(keep) : Mask{}};
        whole.mask.causal = true;
        State state;
        subject.module->start(state, kBatch);
        std::vector<Tensor> pieces;
        int64_t first = 0;
        for (const auto count : split) {
          Context context;
          if (keep.defined()) context.mask = Mask::from_keep(keep.narrow(1, first, count));
          pieces.push_back(subject.module->extend(x.narrow(1, first, count), state, context));
          first += count;
        }
        const auto real = keep.defined() ? keep.unsqueeze(-1).to(at::kDouble)
                                         : at::ones({kBatch, kTokens, 1}, at::kDouble);
        EXPECT_NEAR_TENSOR(at::cat(pieces, 1) * real, (*subject.module)(x, whole) * real, kClose);
      }
}

// One image x [N, C] whose last row may be cut short, by the definition.
Tensor convolved_image(const Subject& subject, const Tensor& x, int64_t columns) {
  const int64_t width = subject.weight.size(1), half = width / 2;
  auto y = subject.bias.detach().expand_as(x).clone();
  for (int64_t t = 0; t < x.size(0); ++t)
    for (int64_t i = 0; i < width; ++i)
      for (int64_t j = 0; j < width; ++j) {
        const int64_t row = t / columns + i - half, column = t % columns + j - half;
        const int64_t s = row * columns + column;
        if (row >= 0 && column >= 0 && column < columns && s < x.size(0))
          y[t] += subject.weight.detach().select(1, i).select(1, j) * x[s];
      }
  return y;
}

TEST(ShortConvolution, IsAroundAPixelOfAnImage) {
  for (const int64_t width : {1, 3, 5})
    for (const int64_t columns : {1, 3, 4, 9}) {
      const auto subject = convolution(width, columns);
      const auto x = input(), y = (*subject.module)(x, {});
      for (int64_t b = 0; b < kBatch; ++b)
        EXPECT_NEAR_TENSOR(y[b], convolved_image(subject, x[b], columns), kClose)
            << width << " taps, " << columns << " columns";
    }
  const auto subject = convolution(3, 3);
  EXPECT_ANY_THROW((*subject.module)(input(), {.mask = {.causal = true}}));
}

TEST(ShortConvolution, TapsOfAnImageAreOdd) {
  EXPECT_THROW(check_convolution({.width = 4, .columns = 3}), OptionError);
  EXPECT_NO_THROW(check_convolution({.width = 4}));
}

TEST(ShortConvolution, GradientsAreThoseOfDifferences) {
  const auto subject = convolution(4);
  const auto x = input().requires_grad_();
  const Context context = {.mask = Mask::from_keep(holes())};
  EXPECT_TRUE(gradcheck([&] { return (*subject.module)(x, context); },
                        {{"x", x}, {"weight", subject.weight}, {"bias", subject.bias}}));
  const auto image = convolution(3, 4);
  EXPECT_TRUE(gradcheck([&] { return (*image.module)(x, {}); },
                        {{"x", x}, {"weight", image.weight}, {"bias", image.bias}}));
}

}  // namespace
}  // namespace longbow
