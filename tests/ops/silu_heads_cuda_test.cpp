#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/silu_heads.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(SiluHeadsCuda, AreTheFormulaForAllWidthsAndTypes) {
  for (const auto& [type, error] : {std::pair{at::kBFloat16, 1e-2}, {at::kHalf, 2e-3}})
    for (const int64_t width : {8, 64, 520, 12})
      for (const int64_t copies : {1, 2, 3, 4, 5}) {
        SCOPED_TRACE(c10::str(copies, " of ", width, " ", type));
        const auto given = at::TensorOptions(type);
        const auto found = [&](const at::TensorOptions& options) {
          const auto drawn = [&](at::IntArrayRef shape, uint64_t seed) {
            return random_normal(shape, seed).to(given).to(options);
          };
          const auto all = drawn({2, 37, width + 16}, 1);
          const auto z = all.narrow(2, 8, width).detach().requires_grad_(),
                     gain = drawn({copies, width}, 2).requires_grad_(),
                     offset = drawn({copies, width}, 3).requires_grad_();
          const auto y = silu_heads(z, gain, offset);
          std::vector<Tensor> slopes;
          for (size_t r = 0; r < y.size(); ++r) slopes.push_back(drawn({2, 37, width}, 4 + r));
          auto results = torch::autograd::grad({y.begin(), y.end()}, {z, gain, offset}, slopes);
          for (const auto& one : y) results.push_back(one.detach());
          for (auto& one : results) one = one.cpu().to(at::kDouble);
          return results;
        };
        const auto got = found(at::TensorOptions(type).device("cuda:0")), want = found(at::kDouble);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{4 * error, error})) << i;
      }
}

}  // namespace
}  // namespace longbow
