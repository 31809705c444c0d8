#include "longbow/nn/contract/rotary.h"

#include <ATen/ATen.h>

#include <complex>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

const Tolerance kClose = {1e-12, 1e-12};

// The definition, one plane at a time, of x [B, H, N, D] at positions [B, N].
Tensor turned(const Rotary& rotary, const Tensor& x, const Tensor& positions) {
  const auto r = static_cast<int64_t>(rotary.fraction * static_cast<double>(x.size(3))) / 2 * 2;
  auto y = x.clone();
  for (int64_t b = 0; b < x.size(0); ++b)
    for (int64_t h = 0; h < x.size(1); ++h)
      for (int64_t n = 0; n < x.size(2); ++n)
        for (int64_t i = 0; i < r / 2; ++i) {
          const bool pairs = rotary.planes == Planes::pairs;
          const int64_t first = pairs ? 2 * i : i, second = pairs ? 2 * i + 1 : i + r / 2;
          const double speed =
              std::pow(rotary.base, -2 * static_cast<double>(i) / static_cast<double>(r));
          const auto value = std::complex<double>(x[b][h][n][first].item<double>(),
                                                  x[b][h][n][second].item<double>()) *
                             std::polar(1.0, positions[b][n].item<double>() * speed);
          y[b][h][n][first] = value.real();
          y[b][h][n][second] = value.imag();
        }
  return y;
}

TEST(Rotary, TurnsEachPlaneByItsPositionAndSpeed) {
  const auto positions = at::tensor({0, 1, 2, 5, 3, 3, 700, 2}, at::kLong).view({2, 4});
  for (const int64_t head : {2, 6, 7})
    for (const double share : {1.0, 0.5})
      for (const auto planes : {Planes::pairs, Planes::halves})
        for (const double base : {10000.0, 50.0}) {
          const Rotary rotary = {.base = base, .fraction = share, .planes = planes};
          const auto x = random_normal({2, 3, 4, head}, 1);
          EXPECT_NEAR_TENSOR(rotary(x, positions), turned(rotary, x, positions), kClose)
              << head << " channels";
        }
}

TEST(Rotary, ProductsDependOnTheDistanceOnly) {
  const Rotary rotary;
  const auto q = random_normal({1, 1, 1, 8}, 1), k = random_normal({1, 1, 1, 8}, 2);
  const auto product = [&](int64_t at_q, int64_t at_k) {
    return (rotary(q, at::tensor({at_q}).view({1, 1})) * rotary(k, at::tensor({at_k}).view({1, 1})))
        .sum();
  };
  EXPECT_NEAR_TENSOR(product(5, 2), product(903, 900), kClose);
  EXPECT_NEAR_TENSOR(product(4, 4), (q * k).sum(), kClose);
  EXPECT_GT((product(5, 2) - product(5, 3)).abs().item<double>(), 1e-3);
}

TEST(Rotary, FarPositionsKeepTheirAnglesInFloat32) {
  const Rotary rotary;
  const auto x = random_normal({1, 1, 1, 16}, 1);
  const auto far = at::tensor({1000003}, at::kLong).view({1, 1});
  EXPECT_NEAR_TENSOR(rotary(x.to(at::kFloat), far).to(at::kDouble), rotary(x, far),
                     (Tolerance{2e-6, 0}));
  EXPECT_EQ(rotary(x.to(at::kBFloat16), far).scalar_type(), at::kBFloat16);
}

TEST(Rotary, OnePositionForAllRowsOrOneEach) {
  const Rotary rotary;
  const auto x = random_normal({3, 2, 4, 6}, 1), positions = at::arange(4).unsqueeze(0);
  EXPECT_NEAR_TENSOR(rotary(x, positions), rotary(x, positions.expand({3, 4})), kExact);
}

TEST(Rotary, ANarrowHeadMayHaveNothingToTurn) {
  const auto x = random_normal({1, 1, 2, 3}, 1);
  EXPECT_EQ(Rotary{.fraction = 0.5}.channels(3), 0);
  EXPECT_NEAR_TENSOR(Rotary{.fraction = 0.5}(x, at::arange(2).unsqueeze(0)), x, kExact);
}

}  // namespace
}  // namespace longbow
