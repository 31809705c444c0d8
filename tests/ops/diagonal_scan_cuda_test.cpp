#include <ATen/ATen.h>

#include "longbow/ops/diagonal_scan.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// States and gradients of the same numbers.
std::vector<Tensor> results(int64_t tokens, int64_t modes, bool reversed, at::ScalarType type,
                            at::Device device) {
  const auto given = [&](const Tensor& x) {
    return x.to(at::kComplexFloat).to(device, type).requires_grad_();
  };
  const auto complex = [](at::IntArrayRef sizes, uint64_t seed) {
    return at::complex(random_normal(sizes, seed), random_normal(sizes, seed + 1));
  };
  const auto b = given(complex({2, tokens, modes}, 1)),
             rate = given(at::complex(random_normal({modes}, 3).abs().neg() * 0.1,
                                      random_normal({modes}, 4)));
  const auto x = diagonal_scan(b, rate, reversed);
  x.backward(complex({2, tokens, modes}, 5).to(at::kComplexFloat).to(device, type));
  std::vector<Tensor> found = {x.detach(), b.grad(), rate.grad()};
  for (auto& t : found) t = at::view_as_real(t.cpu().to(at::kComplexDouble).resolve_conj());
  return found;
}

TEST(DiagonalScanCuda, IsTheScanOfTheCpuForAllShapes) {
  for (const int64_t tokens : {1, 2, 31, 32, 33, 100, 1100})
    for (const int64_t modes : {1, 19, 64})
      for (const bool reversed : {false, true}) {
        SCOPED_TRACE(c10::str(tokens, " x ", modes, reversed ? ", reversed" : ""));
        const auto want = results(tokens, modes, reversed, at::kComplexDouble, at::kCPU),
                   got = results(tokens, modes, reversed, at::kComplexFloat, at::Device("cuda:0"));
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_LE((got[i] - want[i]).norm().item<double>(), 3e-5 * want[i].norm().item<double>())
              << i;
      }
}

TEST(DiagonalScanCuda, LaterInputsHaveNoInfluence) {
  const auto options = at::TensorOptions("cuda:0").dtype(at::kComplexFloat);
  const auto b = at::view_as_complex(random_normal({1, 150, 5, 2}, 1)).to(options);
  const auto rate = at::full({5}, -0.01, options);
  auto other = b.clone();
  other.narrow(1, 70, 80).mul_(3);
  EXPECT_TRUE(
      diagonal_scan(other, rate).narrow(1, 0, 70).equal(diagonal_scan(b, rate).narrow(1, 0, 70)));
}

}  // namespace
}  // namespace longbow
