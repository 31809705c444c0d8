#include "longbow/ops/affine.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "tests/ops/affine_parts.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// y, dx, dweight, dbias in float64 on the CPU.
std::vector<at::Tensor> results(const std::vector<at::Tensor>& inputs, const at::Tensor& dy,
                                const at::TensorOptions& options) {
  std::vector<at::Tensor> given;
  for (const auto& t : inputs) given.push_back(t.to(options, false, true).requires_grad_());
  const auto y = affine(given[0], given[1], given[2]);
  y.backward(dy.to(options));
  std::vector<at::Tensor> found = {y.detach()};
  for (const auto& t : given) found.push_back(t.grad());
  for (auto& t : found) t = t.cpu().to(at::kDouble);
  return found;
}

TEST(AffineCuda, HasTheGradientsOfTheCpu) {
  for (const auto& [type, tolerance] :
       {std::pair{at::kFloat, 1e-5}, {at::kBFloat16, 1.6e-2}, {at::kHalf, 2e-3}})
    for (const int64_t width : {3, 8, 64, 192, 768, 1024, 1100})
      for (const int64_t rows : {1, 37, 5000}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width) + " " +
                     c10::toString(type));
        std::vector<at::Tensor> inputs = {random_normal({rows, 2, 16}, 1),
                                          random_normal({width, 16}, 2), random_normal({width}, 3)};
        auto dy = random_normal({rows, 2, width}, 4);
        for (auto* t : {&inputs[0], &inputs[1], &inputs[2], &dy}) *t = t->to(type).to(at::kDouble);
        const auto want = results(inputs, dy, at::kDouble),
                   got = results(inputs, dy, at::TensorOptions(type).device("cuda:0"));
        // Each element is a sum of that many products, rounded to the type at the end.
        const double terms[] = {16, static_cast<double>(width), 2.0 * rows, 2.0 * rows};
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_NEAR_TENSOR(got[i], want[i],
                             (Tolerance{tolerance * std::sqrt(terms[i]), tolerance}))
              << i;
      }
}

TEST(AffineCuda, SumsAreTheSameEveryTimeAndTakeRowsWithGaps) {
  const auto options = at::TensorOptions(at::kFloat).device("cuda:0");
  const std::vector<at::Tensor> inputs = {random_normal({70001, 16}, 1), random_normal({64, 16}, 2),
                                          random_normal({64}, 3)};
  const auto wide = random_normal({70001, 73}, 4);
  const auto dy = wide.narrow(1, 1, 64);
  const auto first = results(inputs, dy, options), again = results(inputs, dy, options);
  EXPECT_NEAR_TENSOR(first[3], again[3], kExact);
  EXPECT_NEAR_TENSOR(first[3], dy.sum(0), (Tolerance{1e-2, 1e-5}));
}

TEST(AffineCuda, GradientsOfPartsMayLieAnywhere) {
  const auto on_gpu = at::TensorOptions().device("cuda:0");
  for (const int64_t width : {16, 264}) {
    SCOPED_TRACE(width);
    expect_gradients_from_anywhere(on_gpu.dtype(at::kFloat), {1e-3, 1e-5}, width);
    // Two sums on the way are rounded too, by 1/512 of up to five times their usual size.
    const double rounded = 2 * 5 * std::sqrt(3.0 * static_cast<double>(width)) / 512;
    expect_gradients_from_anywhere(on_gpu.dtype(at::kBFloat16), {rounded, 1.6e-2}, width);
  }
}

TEST(AffineCuda, HasASecondDerivative) {
  const auto options = at::TensorOptions(at::kFloat).device("cuda:0");
  const auto x = random_normal({5, 8}, 1).to(options).requires_grad_(),
             w = random_normal({8, 8}, 2).to(options).requires_grad_(),
             b = random_normal({8}, 3).to(options).requires_grad_();
  // y = x w^T + b, s = sum y^3: ds/db = 3 sum_i y_i^2, and its derivative by b is 6 sum_i y_i.
  const auto y = affine(x, w, b);
  const auto db = torch::autograd::grad({y.pow(3).sum()}, {b}, {}, true, true)[0];
  EXPECT_NEAR_TENSOR(torch::autograd::grad({db.sum()}, {b})[0].cpu(), (6 * y.detach().sum(0)).cpu(),
                     (Tolerance{1e-3, 1e-4}));
}

}  // namespace
}  // namespace longbow
