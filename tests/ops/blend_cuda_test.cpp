#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/blend.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// Values and gradients for numbers that were rounded to a type.
std::vector<Tensor> blended(at::IntArrayRef shape, int64_t fields, at::ScalarType rounded,
                            at::ScalarType computed, at::Device device) {
  const auto drawn = [&](at::IntArrayRef of, uint64_t seed) {
    return random_normal(of, seed).to(rounded).to(device, computed).requires_grad_();
  };
  std::vector<Tensor> leaves = {drawn({fields, shape[1], shape[3]}, 1)}, given;
  for (int64_t f = 0; f < fields; ++f) {
    leaves.push_back(drawn(shape, static_cast<uint64_t>(2 + f)));
    given.push_back(leaves.back());
  }
  const auto y = blend(given, leaves[0]);
  auto found = torch::autograd::grad({y}, leaves, {drawn(shape, 9).detach()});
  found.insert(found.begin(), y.detach());
  for (auto& x : found) x = x.cpu().to(at::kDouble);
  return found;
}

TEST(BlendCuda, IsTheFormulaForAllWidthsAndTypes) {
  for (const auto& [type, error] : {std::pair{at::kBFloat16, 1e-2}, {at::kHalf, 2e-3}})
    for (const int64_t width : {8, 64, 24, 12, 1024})
      for (const int64_t fields : {1, 2, 3, 4, 5}) {
        SCOPED_TRACE(c10::str(width, " ", type, ", ", fields));
        const std::vector<int64_t> shape = {2, 2, 37, width};
        const auto got = blended(shape, fields, type, type, at::Device("cuda:0")),
                   want = blended(shape, fields, type, at::kDouble, at::kCPU);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{4 * error, error})) << i;
      }
}

TEST(BlendCuda, ReadsWeightsAtAnyAddress) {
  const auto options = at::TensorOptions("cuda:0").dtype(at::kBFloat16);
  const auto weights = random_normal({33}, 1).to(options).narrow(0, 1, 32).view({2, 2, 8}),
             x = random_normal({2, 2, 7, 8}, 2).to(options);
  EXPECT_NEAR_TENSOR(blend({x, x}, weights), blend({x, x}, weights.clone()), kExact);
}

}  // namespace
}  // namespace longbow
