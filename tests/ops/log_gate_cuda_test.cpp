#include <ATen/ATen.h>

#include "longbow/ops/log_gate.h"
#include "tests/ops/roundings.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

std::vector<Tensor> results(int64_t count, const at::TensorOptions& options, bool formula) {
  const auto x = (random_normal({3, count}, 1) * 8).to(at::kBFloat16).to(options).requires_grad_();
  const auto y = (formula ? log_gate_formula : log_gate)(x, 16);
  y.backward(random_normal({3, count}, 2).to(y.options()));
  return {y.detach().cpu().to(at::kDouble), x.grad().cpu().to(at::kDouble)};
}

TEST(LogGateCuda, IsTheFormula) {
  for (const int64_t count : {8, 24, 5000, 7}) {
    const auto want = results(count, at::kDouble, true),
               got = results(count, at::TensorOptions("cuda:0").dtype(at::kBFloat16), false);
    EXPECT_LT(roundings(got[0], want[0], false), 0.01) << count;
    EXPECT_LT(roundings(got[1], want[1], false), 2) << count;
  }
}

}  // namespace
}  // namespace longbow
