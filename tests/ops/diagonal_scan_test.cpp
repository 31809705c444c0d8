#include "longbow/ops/diagonal_scan.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// More modes than the kernel takes at once.
constexpr int64_t kModes = 19;

Tensor some_rates(int64_t modes = kModes) {
  return at::complex(random_normal({modes}, 1).abs().neg() * 0.2, random_normal({modes}, 2) * 2);
}
Tensor some_inputs(int64_t length, int64_t modes = kModes) {
  return at::complex(random_normal({2, length, modes}, 3), random_normal({2, length, modes}, 4));
}
Tensor parts(const Tensor& x) {
  return at::view_as_real(x.resolve_conj());
}

Tensor recurrence(const Tensor& b, const Tensor& rate) {
  auto x = at::zeros_like(b.select(1, 0));
  std::vector<Tensor> states;
  for (int64_t t = 0; t < b.size(1); ++t) {
    x = rate.exp() * x + b.select(1, t);
    states.push_back(x);
  }
  return at::stack(states, 1);
}

TEST(DiagonalScan, KernelAndFormulaAreTheRecurrence) {
  for (const int64_t length : {1, 2, 31, 32, 33, 100, 1024, 1100}) {
    SCOPED_TRACE(length);
    const auto rate = some_rates(), b = some_inputs(length);
    const auto forth = recurrence(b, rate), back = recurrence(b.flip(1), rate).flip(1);
    for (const auto scan : {diagonal_scan, diagonal_scan_formula}) {
      EXPECT_NEAR_TENSOR(parts(scan(b, rate, false)), parts(forth), tolerance(at::kDouble));
      EXPECT_NEAR_TENSOR(parts(scan(b, rate, true)), parts(back), tolerance(at::kDouble));
    }
  }
}

TEST(DiagonalScan, TakesStridesAndConjugates) {
  const auto rate = some_rates(2), b = some_inputs(6, 2).transpose(0, 1);  // six of two tokens
  EXPECT_NEAR_TENSOR(parts(diagonal_scan(b.conj(), rate.conj())), parts(recurrence(b, rate).conj()),
                     tolerance(at::kDouble));
}

TEST(DiagonalScan, Float32IsNearFloat64) {
  const auto rate = some_rates(), b = some_inputs(500);
  const auto got = diagonal_scan(b.to(at::kComplexFloat), rate.to(at::kComplexFloat));
  EXPECT_NEAR_TENSOR(parts(got), parts(recurrence(b, rate)), (Tolerance{.absolute = 1e-4}));
}

TEST(DiagonalScan, LaterInputsHaveNoInfluence) {
  const auto rate = some_rates(), b = some_inputs(150);
  auto other = b.clone();
  other.narrow(1, 70, 80).mul_(3);
  for (const auto scan : {diagonal_scan, diagonal_scan_formula})
    EXPECT_TRUE(
        scan(other, rate, false).narrow(1, 0, 70).equal(scan(b, rate, false).narrow(1, 0, 70)));
}

// A system that forgets at once has the inputs as its states, whatever the lag would overflow.
TEST(DiagonalScan, FastSystemsDoNotOverflow) {
  const auto b = some_inputs(200).to(at::kComplexFloat);
  for (const auto scan : {diagonal_scan, diagonal_scan_formula})
    EXPECT_TRUE(scan(b, at::full({kModes}, -1e4, b.options()), false).equal(b));
}

std::vector<Leaf> leaves(int64_t length, int64_t modes) {
  return {{"fading", (random_normal({modes}, 1).abs().neg() * 0.2).requires_grad_()},
          {"turning", random_normal({modes}, 2).requires_grad_()},
          {"b", random_normal({2, length, modes, 2}, 3).requires_grad_()}};
}
Tensor scanned(const std::vector<Leaf>& of, bool reversed) {
  const auto rate = at::complex(of[0].tensor, of[1].tensor);
  return at::view_as_real(diagonal_scan(at::view_as_complex(of[2].tensor), rate, reversed));
}

TEST(DiagonalScan, GradientsAreThoseOfDifferences) {
  for (const bool reversed : {false, true})
    for (const int64_t length : {1, 2, 37}) {
      const auto all = leaves(length, 3);
      EXPECT_TRUE(gradcheck([&] { return scanned(all, reversed); }, all));
    }
}

TEST(DiagonalScan, IsTwiceDifferentiable) {
  const auto all = leaves(7, 2);
  const auto weights = random_normal({2, 7, 2, 2}, 4);
  const auto slopes = [&] {
    const auto found = torch::autograd::grad({(scanned(all, false) * weights).sum()},
                                             {all[0].tensor, all[1].tensor, all[2].tensor}, {},
                                             true, /*create_graph=*/true);
    return at::cat({found[0].flatten(), found[1].flatten(), found[2].flatten()});
  };
  EXPECT_TRUE(gradcheck(slopes, all));
}

TEST(DiagonalScan, AnEmptySequenceStaysEmpty) {
  const auto none = at::zeros({2, 0, 4}, at::kComplexDouble).requires_grad_(),
             rate = at::zeros({4}, at::kComplexDouble).requires_grad_();
  const auto y = diagonal_scan(none, rate);
  EXPECT_EQ(y.sizes(), none.sizes());
  y.backward(at::zeros_like(y));
  EXPECT_TRUE(rate.grad().equal(at::zeros({4}, at::kComplexDouble)));
}

TEST(DiagonalScan, RefusesWhatDoesNotFit) {
  const auto b = at::zeros({2, 5, 4}, at::kComplexFloat);
  EXPECT_EQ(error_of([&] { (void)diagonal_scan(b, at::zeros({3}, at::kComplexFloat)); }),
            "diagonal_scan: b is [2, 5, 4] but rate is [3]");
  EXPECT_EQ(error_of([&] { (void)diagonal_scan(b, at::zeros({4})); }),
            "diagonal_scan: b is ComplexFloat and rate Float, but both must be complex, of one "
            "type");
  using Gradients = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, bool);
  const auto gradients = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::diagonal_scan_gradients", "")
                             .typed<Gradients>();
  EXPECT_EQ(error_of([&] {
              gradients.call(b.narrow(1, 0, 3), b, at::zeros({4}, at::kComplexFloat), false);
            }),
            "diagonal_scan_gradients: the gradient is ComplexFloat [2, 3, 4] but the states are "
            "ComplexFloat [2, 5, 4]");
}

TEST(DiagonalScan, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("diagonal_scan"), "");
  EXPECT_EQ(missing_kernels("diagonal_scan_gradients"), "");
  const auto options = at::TensorOptions(at::kMeta).dtype(at::kComplexFloat);
  const auto b = at::empty({2, 5, 4}, options);
  EXPECT_EQ(diagonal_scan(b, at::empty({4}, options)).sizes(), b.sizes());
}

}  // namespace
}  // namespace longbow
