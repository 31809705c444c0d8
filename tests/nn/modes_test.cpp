#include "longbow/nn/layers/modes.h"

#include <ATen/ATen.h>

#include "longbow/ops/fft_convolution.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// Three channels with four modes each.
Modes some_modes(bool turning) {
  const auto fading = random_normal({3, 4}, 1).abs().neg() * 0.3, weight = random_normal({3, 4}, 2);
  if (!turning) return {fading, weight};
  return {at::complex(fading, random_normal({3, 4}, 3)),
          at::complex(weight, random_normal({3, 4}, 4))};
}

Tensor recurrence(const Tensor& u, const Modes& modes) {
  auto s = at::zeros({u.size(0), 3, 4}, modes.rate.options());
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < u.size(1); ++t) {
    s = modes.rate.exp() * s + u.select(1, t).unsqueeze(-1);
    rows.push_back(at::real(modes.weight * s).sum(-1));
  }
  return at::stack(rows, 1);
}

TEST(Modes, TheKernelIsTheRecurrence) {
  for (const bool turning : {false, true})
    for (const int64_t length : {1, 5, 63, 64, 65, 200}) {
      const auto u = random_normal({2, length, 3}, 5);
      const auto modes = some_modes(turning);
      EXPECT_NEAR_TENSOR(fft_convolution(u, kernel_of(modes, length)), recurrence(u, modes),
                         tolerance(at::kDouble));
    }
}

TEST(Modes, PiecesWithPaddedTokensAreTheWhole) {
  for (const bool turning : {false, true}) {
    const auto modes = some_modes(turning);
    const auto u = random_normal({2, 90, 3}, 5), want = recurrence(u, modes);
    State state;
    open_modes(state, "modes", 2, modes);
    std::vector<int64_t> next = {0, 0};
    for (const auto& [tokens, real] : std::vector<std::pair<int64_t, std::vector<int64_t>>>{
             {1, {1, 1}}, {7, {7, 3}}, {70, {69, 70}}, {4, {0, 4}}, {12, {12, 1}}}) {
      auto piece = at::zeros({2, tokens, 3}, at::kDouble);
      auto keep = at::zeros({2, tokens}, at::kBool);
      for (int64_t b = 0; b < 2; ++b) {
        piece[b].narrow(0, 0, real[b]).copy_(u[b].narrow(0, next[b], real[b]));
        keep[b].narrow(0, 0, real[b]).fill_(true);
      }
      const auto got = grow_modes(state, "modes", piece, modes, keep);
      for (int64_t b = 0; b < 2; ++b) {
        EXPECT_NEAR_TENSOR(got[b].narrow(0, 0, real[b]), want[b].narrow(0, next[b], real[b]),
                           tolerance(at::kDouble));
        next[b] += real[b];
      }
    }
  }
}

TEST(Modes, GradientsAreThoseOfDifferences) {
  const auto fading = (random_normal({3, 4}, 1).abs().neg() * 0.3).requires_grad_(),
             turning = random_normal({3, 4}, 3).requires_grad_(),
             weight = random_normal({3, 4, 2}, 2).requires_grad_(),
             u = random_normal({2, 70, 3}, 5).requires_grad_();
  const auto extended = [&] {
    const Modes modes = {at::complex(fading, turning), at::view_as_complex(weight)};
    State state;
    open_modes(state, "modes", 2, modes);
    const auto first = grow_modes(state, "modes", u.narrow(1, 0, 66), modes, {});
    return at::cat({first, grow_modes(state, "modes", u.narrow(1, 66, 4), modes, {})}, 1);
  };
  EXPECT_TRUE(gradcheck(extended,
                        {{"fading", fading}, {"turning", turning}, {"weight", weight}, {"u", u}}));
}

TEST(Modes, AKernelOfManyLagsIsFiniteInFloat32) {
  const auto modes = some_modes(true);
  const Modes narrow = {modes.rate.to(at::kComplexFloat), modes.weight.to(at::kComplexFloat)};
  EXPECT_NEAR_TENSOR(kernel_of(narrow, 5000), kernel_of(modes, 5000), (Tolerance{2e-5}));
}

}  // namespace
}  // namespace longbow
