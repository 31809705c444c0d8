#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/chunk_weights.h"
#include "tests/ops/roundings.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

struct Sizes {
  int64_t tokens, width;
  bool causal;
};

// Weights and gradients for numbers that were rounded to a type.
std::vector<Tensor> results(const Sizes& size, at::ScalarType rounded, at::ScalarType computed,
                            at::Device device) {
  const auto drawn = [&](at::IntArrayRef shape, uint64_t seed) {
    return random_normal(shape, seed).to(rounded).to(device, computed);
  };
  const int64_t tokens = size.tokens;
  const auto q = drawn({2, 3 * tokens, size.width}, 1).requires_grad_(),
             k = drawn({2, 3 * tokens, size.width}, 2).requires_grad_(),
             bias = drawn({2 * tokens - 1}, 3)
                        .to(computed == at::kDouble ? at::kDouble : at::kFloat)
                        .requires_grad_();
  const auto w = chunk_weights(q, k, bias, tokens, 0.3, size.causal);
  auto found = torch::autograd::grad({w}, {q, k, bias}, {drawn(w.sizes(), 4)});
  found.push_back(w.detach());
  for (auto& one : found) one = one.cpu().to(at::kDouble);
  return found;
}

TEST(ChunkWeightsCuda, AreTheFormulaForAllSizesAndTypes) {
  for (const auto& [type, error] : {std::pair{at::kBFloat16, 2.5}, {at::kHalf, 0.3}})
    for (const auto& size : {Sizes{128, 64, true},
                             {128, 64, false},
                             {64, 32, true},
                             {16, 16, false},
                             {48, 64, true},
                             {80, 48, false},
                             {20, 16, true},
                             {32, 24, false}}) {
      SCOPED_TRACE(c10::str(size.tokens, " x ", size.width, " ", type, size.causal));
      const auto got = results(size, type, type, at::Device("cuda:0")),
                 want = results(size, type, at::kDouble, at::kCPU);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_LT(roundings(got[i], want[i], false), error) << i;
    }
}

}  // namespace
}  // namespace longbow
