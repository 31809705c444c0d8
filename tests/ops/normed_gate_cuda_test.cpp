#include <ATen/ATen.h>

#include "longbow/ops/normed_gate.h"
#include "tests/ops/roundings.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// y and all gradients of numbers that were rounded to bfloat16; what goes with x and the gate are
// parts of wider rows.
std::vector<Tensor> results(int64_t tokens, int64_t width, int64_t groups, bool both,
                            const at::TensorOptions& options, bool formula) {
  const auto given = [&](at::IntArrayRef sizes, uint64_t seed) {
    return (random_normal(sizes, seed) + 0.2).to(at::kBFloat16).to(options).requires_grad_();
  };
  const auto x = given({2, tokens, width}, 1), rows = given({2, tokens, 2 * width + 8}, 2),
             weight = given({width}, 4);
  const auto y = (formula ? normed_gate_formula : normed_gate)(
      x, both ? rows.narrow(-1, 8, width) : Tensor(), rows.narrow(-1, width + 8, width), weight,
      groups, 1e-5);
  y.backward(random_normal({2, tokens, width}, 5).to(at::kBFloat16).to(options));
  std::vector<Tensor> found = {y.detach(), x.grad(), rows.grad(), weight.grad()};
  for (auto& t : found) t = t.cpu().to(at::kDouble);
  return found;
}

TEST(NormedGateCuda, IsTheFormulaForAllShapes) {
  const auto gpu = at::TensorOptions("cuda:0").dtype(at::kBFloat16);
  for (const int64_t width : {8, 24, 264, 1024, 2048, 12})
    for (const int64_t tokens : {1, 7, 1000})
      for (const int64_t groups : {1, 2})
        for (const bool both : {false, true}) {
          SCOPED_TRACE(
              c10::str(tokens, " x ", width, " in ", groups, both ? ", both directions" : ""));
          const auto want = results(tokens, width, groups, both, at::kDouble, true),
                     got = results(tokens, width, groups, both, gpu, false);
          for (size_t i = 0; i < got.size(); ++i)
            EXPECT_LT(roundings(got[i], want[i], false), 2) << i;
        }
}

}  // namespace
}  // namespace longbow
