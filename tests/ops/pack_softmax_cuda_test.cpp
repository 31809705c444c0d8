#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/pack_softmax.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

const at::Device kDevice("cuda:0");

struct Sizes {
  int64_t keys, queries, width = 64, value_width = 64;
};

// out, dq, dk and dv of arguments that were rounded to a type, as heads of tokens [B, N, H, width].
std::vector<Tensor> results(const Sizes& size, bool hides, at::ScalarType rounded,
                            at::ScalarType computed, at::Device device) {
  const auto drawn = [&](int64_t tokens, int64_t width, uint64_t seed) {
    return random_normal({2, tokens, 3, width}, seed).to(rounded).to(device, computed);
  };
  const auto q = drawn(size.queries, size.width, 1).requires_grad_(),
             k = drawn(size.keys, size.width, 2).requires_grad_(),
             v = drawn(size.keys, size.value_width, 3).requires_grad_();
  const auto by_head = [](const Tensor& x) { return x.transpose(1, 2); };
  auto keep = Tensor();
  if (hides) {
    keep = random_normal({2, size.keys}, 5) > 0;
    keep[0].fill_(false);  // the first sequence has no keys
    keep = keep.to(device);
  }
  const auto y = pack_softmax(by_head(q) * 0.25, by_head(k), by_head(v), keep);
  auto found =
      torch::autograd::grad({y}, {q, k, v}, {by_head(drawn(size.queries, size.value_width, 4))});
  found.insert(found.begin(), y.detach());
  for (auto& x : found) x = x.cpu().to(at::kDouble);
  return found;
}

double rounding(at::ScalarType type) {
  return type == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
}

void expect_equal(const Sizes& size, bool hides, at::ScalarType type) {
  SCOPED_TRACE(c10::str(size.keys, " keys, ", size.queries, " queries, ", size.width, " and ",
                        size.value_width, hides ? ", some hidden " : " ", type));
  const auto got = results(size, hides, type, type, kDevice),
             want = results(size, hides, type, at::kDouble, at::kCPU);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LE((got[i] - want[i]).norm().item<double>(),
              2 * rounding(type) * want[i].norm().item<double>())
        << i;  // false for NaN
}

TEST(PackSoftmaxCuda, IsTheDefinitionForAllSizes) {
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const bool hides : {false, true}) {
      for (const int64_t keys : {9, 63, 65, 1000})
        for (const int64_t queries : {1, 15, 16, 17, 32, 33, 64})
          expect_equal({keys, queries}, hides, type);
      for (const auto& [width, value_width] : {std::pair{8, 64}, {64, 8}, {24, 40}, {32, 32}})
        expect_equal({200, 20, width, value_width}, hides, type);
    }
}

// These have no kernel.
TEST(PackSoftmaxCuda, UsesTheFormulaElsewhere) {
  expect_equal({70, 65}, true, at::kBFloat16);
  expect_equal({70, 16, 72, 64}, true, at::kBFloat16);
  expect_equal({70, 16, 64, 12}, false, at::kHalf);
}

// Several tiles of keys in a thread block, and as many keys as blocks share out unevenly.
TEST(PackSoftmaxCuda, AddsUpLongSequences) {
  expect_equal({12000, 16}, false, at::kBFloat16);
  expect_equal({11111, 64}, true, at::kBFloat16);
}

}  // namespace
}  // namespace longbow
