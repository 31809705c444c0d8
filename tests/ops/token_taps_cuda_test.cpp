#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/token_taps.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

const at::Device kDevice("cuda:0");

struct Sizes {
  int64_t tokens, channels, heads, taps, left;
};

// out, dz and dtaps of rows that were rounded to a type and stand apart in memory.
std::vector<Tensor> results(const Sizes& s, at::ScalarType rounded, at::ScalarType computed,
                            at::Device device) {
  const auto wide = computed == at::kDouble ? at::kDouble : at::kFloat;
  const auto z = random_normal({2, s.tokens, s.channels + 8}, 1)
                     .to(rounded)
                     .to(device, computed)
                     .requires_grad_(),
             taps = random_normal({2, s.tokens, s.heads, s.taps}, 2)
                        .to(at::kFloat)
                        .to(device, wide)
                        .requires_grad_();
  const auto y = token_taps(z.narrow(2, 8, s.channels), taps.transpose(1, 2), s.left);
  auto found = torch::autograd::grad({y}, {z, taps},
                                     {random_normal(y.sizes(), 3).to(at::kFloat).to(device, wide)});
  found.insert(found.begin(), y.detach());
  for (auto& one : found) one = one.cpu().to(at::kDouble);
  return found;
}

TEST(TokenTapsCuda, IsTheDefinition) {
  for (const auto& [type, rounding] :
       {std::pair{at::kBFloat16, 0x1p-8}, {at::kHalf, 0x1p-11}, {at::kFloat, 0x1p-20}})
    for (const auto& s : {Sizes{1, 8, 1, 3, 1},
                          {70, 64, 4, 15, 7},
                          {33, 256, 8, 15, 14},
                          {20, 520, 65, 4, 0},
                          {20, 512, 2, 5, 2},
                          {20, 24, 2, 5, 2}}) {
      SCOPED_TRACE(c10::str(s.tokens, " x ", s.channels, ", ", s.heads, " heads, ", s.taps,
                            " taps, ", type));
      const auto got = results(s, type, type, kDevice),
                 want = results(s, type, at::kDouble, at::kCPU);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_LE((got[i] - want[i]).norm().item<double>(),
                  rounding * want[i].norm().item<double>())
            << i;  // false for NaN
    }
}

}  // namespace
}  // namespace longbow
