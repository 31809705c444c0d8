#include "longbow/ops/linear_scan.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// S_0 .. S_k, step by step.
Tensor states(const Tensor& a, const Tensor& b, const Tensor& first, bool matrices) {
  std::vector<Tensor> all = {first};
  for (int64_t i = 0; i < b.size(-3); ++i) {
    const auto factor = a.select(-3, i);
    all.push_back((matrices ? factor.matmul(all.back()) : factor * all.back()) + b.select(-3, i));
  }
  return at::stack(all, -3);
}

TEST(LinearScan, IsTheRecurrence) {
  for (const int64_t steps : {0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 100}) {
    const auto b = random_normal({2, steps, 3, 5}, 1), first = random_normal({2, 3, 5}, 2);
    for (const auto& shape : {std::array<int64_t, 2>{3, 5}, {3, 1}, {1, 5}, {1, 1}}) {
      const auto a = random_normal({2, steps, shape[0], shape[1]}, 3);
      EXPECT_NEAR_TENSOR(decay_scan(a, b, first), states(a, b, first, false),
                         (Tolerance{1e-10, 1e-10}))
          << steps;
    }
    const auto a = random_normal({2, steps, 3, 3}, 4) * 0.4;
    EXPECT_NEAR_TENSOR(matrix_scan(a, b, first), states(a, b, first, true),
                       (Tolerance{1e-10, 1e-10}))
        << steps;
  }
}

TEST(LinearScan, GradientsAreThoseOfDifferences) {
  for (const int64_t steps : {1, 6, 7}) {
    const auto a = random_normal({2, steps, 3, 3}, 1).requires_grad_(),
               b = random_normal({2, steps, 3, 3}, 2).requires_grad_(),
               first = random_normal({2, 3, 3}, 3).requires_grad_();
    const std::vector<Leaf> leaves = {{"a", a}, {"b", b}, {"first", first}};
    EXPECT_TRUE(gradcheck([&] { return decay_scan(a, b, first); }, leaves));
    EXPECT_TRUE(gradcheck([&] { return matrix_scan(a, b, first); }, leaves));
  }
}

}  // namespace
}  // namespace longbow
