#include "longbow/ops/diagonal_scan.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor some_rates(bool turning) {
  const auto fading = random_normal({4}, 1).abs().neg() * 0.2;
  return turning ? at::complex(fading, random_normal({4}, 2) * 2) : fading;
}
Tensor some_inputs(int64_t length, bool turning) {
  const auto real = random_normal({2, length, 4}, 3);
  return turning ? at::complex(real, random_normal({2, length, 4}, 4)) : real;
}
Tensor parts(const Tensor& x) {
  return x.is_complex() ? at::view_as_real(x) : x;
}

TEST(DiagonalScan, IsTheRecurrence) {
  for (const bool turning : {false, true})
    for (const int64_t length : {1, 2, 31, 32, 33, 100, 1024, 1100}) {
      const auto rate = some_rates(turning), b = some_inputs(length, turning);
      auto x = at::zeros_like(b.select(1, 0));
      std::vector<Tensor> states;
      for (int64_t t = 0; t < length; ++t) {
        x = rate.exp() * x + b.select(1, t);
        states.push_back(x);
      }
      EXPECT_NEAR_TENSOR(parts(diagonal_scan(b, rate)), parts(at::stack(states, 1)),
                         tolerance(at::kDouble))
          << length;
    }
}

TEST(DiagonalScan, LaterInputsHaveNoInfluence) {
  const auto rate = some_rates(true), b = some_inputs(150, true);
  auto other = b.clone();
  other.narrow(1, 70, 80).mul_(3);
  EXPECT_TRUE(
      diagonal_scan(other, rate).narrow(1, 0, 70).equal(diagonal_scan(b, rate).narrow(1, 0, 70)));
}

// A system that forgets at once has the inputs as its states, whatever the lag would overflow.
TEST(DiagonalScan, FastSystemsDoNotOverflow) {
  const auto b = some_inputs(200, false).to(at::kFloat);
  EXPECT_TRUE(diagonal_scan(b, at::full({4}, -1e4)).equal(b));
}

TEST(DiagonalScan, GradientsAreThoseOfDifferences) {
  const auto fading = (random_normal({4}, 1).abs().neg() * 0.2).requires_grad_(),
             turning = random_normal({4}, 2).requires_grad_(),
             b = random_normal({2, 70, 4, 2}, 3).requires_grad_();
  EXPECT_TRUE(gradcheck(
      [&] {
        return at::view_as_real(
            diagonal_scan(at::view_as_complex(b), at::complex(fading, turning)));
      },
      {{"fading", fading}, {"turning", turning}, {"b", b}}));
}

TEST(DiagonalScan, AnEmptySequenceStaysEmpty) {
  EXPECT_EQ(diagonal_scan(at::zeros({2, 0, 4}), at::zeros({4})).sizes(),
            (std::vector<int64_t>{2, 0, 4}));
}

TEST(DiagonalScan, RefusesOtherShapes) {
  EXPECT_EQ(error_of([] {
              (void)diagonal_scan(at::zeros({2, 5, 4}), at::zeros({3}));
            }),
            "diagonal_scan: b is [2, 5, 4] but rate is [3]");
}

}  // namespace
}  // namespace longbow
