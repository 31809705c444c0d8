#include <ATen/ATen.h>

#include "longbow/ops/gated_norm.h"
#include "tests/ops/roundings.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

struct Shape {
  int64_t tokens, heads, width;
  bool second, gated;
};

// y and all gradients of numbers that were rounded to bfloat16. The gate is a part of wider rows.
std::vector<Tensor> results(const Shape& s, const at::TensorOptions& options, bool formula) {
  const int64_t all = s.heads * s.width;
  const auto given = [&](at::IntArrayRef sizes, uint64_t seed) {
    return (random_normal(sizes, seed) + 0.2).to(at::kBFloat16).to(options).requires_grad_();
  };
  const auto wide = given({2, s.tokens, all + 8}, 1), x = wide.narrow(-1, 0, all),
             other = given({2, s.tokens, all}, 2), rows = given({2, s.tokens, all + 16}, 3),
             weight = given({s.width}, 4);
  const auto second = s.second ? other : Tensor(),
             gate = s.gated ? rows.narrow(-1, 8, all) : Tensor();
  const auto y = (formula ? gated_norm_formula : gated_norm)(x, second, gate, weight, 1e-5);
  y.backward(random_normal({2, s.tokens, all}, 5).to(at::kBFloat16).to(options));
  std::vector<Tensor> found = {y.detach(), wide.grad(), weight.grad()};
  if (s.second) found.push_back(other.grad());
  if (s.gated) found.push_back(rows.grad());
  for (auto& t : found) t = t.cpu().to(at::kDouble);
  return found;
}

TEST(GatedNormCuda, IsTheFormulaForAllShapes) {
  const auto gpu = at::TensorOptions("cuda:0");
  for (const int64_t width : {8, 24, 64, 128, 256, 12, 264})
    for (const int64_t tokens : {1, 7, 1000})
      for (const bool second : {false, true})
        for (const bool gated : {false, true}) {
          SCOPED_TRACE(
              c10::str(tokens, " x 3 x ", width, second ? ", two" : "", gated ? ", gated" : ""));
          const Shape shape = {tokens, 3, width, second, gated};
          const auto want = results(shape, at::kDouble, true),
                     got = results(shape, gpu.dtype(at::kBFloat16), false);
          for (size_t i = 0; i < got.size(); ++i)
            EXPECT_LT(roundings(got[i], want[i], false), 2) << i;
        }
}

TEST(GatedNormCuda, TokensBesideADimensionOfOneMayHaveGaps) {
  const auto options = at::TensorOptions("cuda:0").dtype(at::kBFloat16);
  const auto x = random_normal({3, 9, 16}, 1).to(options).unsqueeze(1).narrow(2, 0, 5),
             weight = random_normal({16}, 2).to(options);
  const auto normed = [&](const Tensor& rows) {
    return gated_norm(rows, {}, {}, weight, 1e-5).cpu();
  };
  EXPECT_TRUE(at::equal(normed(x), normed(x.contiguous())));
}

}  // namespace
}  // namespace longbow
