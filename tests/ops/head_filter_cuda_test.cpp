#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/head_filter.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

const at::Device kDevice("cuda:0");

// out, dx and dfilter of arguments that were rounded to a type, as heads of tokens [B, N, H, D].
std::vector<Tensor> results(int64_t tokens, int64_t width, int64_t taps, at::ScalarType rounded,
                            at::ScalarType computed, at::Device device) {
  const auto drawn = [&](at::IntArrayRef shape, uint64_t seed) {
    return random_normal(shape, seed).to(rounded).to(device, computed);
  };
  const auto x = drawn({2, tokens, 3, width}, 1).requires_grad_(),
             filter = drawn({3, taps}, 2).requires_grad_();
  const auto y = head_filter(x.transpose(1, 2), filter);
  auto found =
      torch::autograd::grad({y}, {x, filter}, {drawn({2, tokens, 3, width}, 3).transpose(1, 2)});
  found.insert(found.begin(), y.detach());
  for (auto& one : found) one = one.cpu().to(at::kDouble);
  return found;
}

TEST(HeadFilterCuda, IsTheDefinitionForAllSizes) {
  for (const auto& [type, rounding] : {std::pair{at::kBFloat16, 0x1p-8}, {at::kHalf, 0x1p-11}})
    for (const int64_t taps : {1, 3, 31, 33, 35})
      for (const auto& [tokens, width] :
           {std::pair{1, 64}, {63, 64}, {65, 8}, {300, 40}, {1000, 64}, {70, 72}, {70, 12}}) {
        SCOPED_TRACE(c10::str(tokens, " x ", width, ", ", taps, " taps, ", type));
        const auto got = results(tokens, width, taps, type, type, kDevice),
                   want = results(tokens, width, taps, type, at::kDouble, at::kCPU);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_LE((got[i] - want[i]).norm().item<double>(),
                    rounding * want[i].norm().item<double>())
              << i;  // false for NaN
      }
}

TEST(HeadFilterCuda, AddsUpLongSequences) {
  const auto got = results(12000, 64, 33, at::kBFloat16, at::kBFloat16, kDevice),
             want = results(12000, 64, 33, at::kBFloat16, at::kDouble, at::kCPU);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LE((got[i] - want[i]).norm().item<double>(), 0x1p-8 * want[i].norm().item<double>())
        << i;
}

}  // namespace
}  // namespace longbow
