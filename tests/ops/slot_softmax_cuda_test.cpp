// slot_softmax and pack_softmax: many queries of few keys, and few queries of many.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/pack_softmax.h"
#include "longbow/ops/slot_softmax.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;
using TensorVector = std::vector<Tensor>;

const at::Device kDevice("cuda:0");

struct Sizes {
  int64_t many, few, width = 64, value_width = 64;
};

enum class Few { keys, queries };

// dq, dk, dv and the results of arguments that were rounded to a type, as heads of tokens [B, N, H,
// width].
std::vector<Tensor> results(Few few, const Sizes& size, bool hides, at::ScalarType rounded,
                            at::ScalarType computed, at::Device device) {
  const auto drawn = [&](int64_t tokens, int64_t width, uint64_t seed) {
    return random_normal({2, tokens, 3, width}, seed).to(rounded).to(device, computed);
  };
  const int64_t queries = few == Few::keys ? size.many : size.few,
                keys = few == Few::keys ? size.few : size.many;
  const auto q = drawn(queries, size.width, 1).requires_grad_(),
             k = drawn(keys, size.width, 2).requires_grad_(),
             v = drawn(keys, size.value_width, 3).requires_grad_();
  const auto by_head = [](const Tensor& x) { return x.transpose(1, 2); };
  auto keep = Tensor();
  if (hides) {
    keep = random_normal({2, keys}, 5) > 0;
    keep[0].fill_(false);  // the first sequence sees nothing
    keep = keep.to(device);
  }
  TensorVector y, slopes = {by_head(drawn(queries, size.value_width, 4))};
  if (few == Few::keys) {
    y = {slot_softmax(by_head(q) * 0.25, by_head(k), by_head(v), hides ? keep.unsqueeze(1) : keep)};
  } else {
    const auto part = pack_softmax_part(by_head(q) * 0.25, by_head(k), by_head(v), keep);
    y = {part.out, part.log_sum};
    slopes.push_back(random_normal(part.log_sum.sizes(), 6).to(part.log_sum.options()));
  }
  auto found = torch::autograd::grad(y, {q, k, v}, slopes);
  for (const auto& one : y) found.push_back(one.detach().masked_fill(one.isneginf(), 0));
  for (auto& x : found) x = x.cpu().to(at::kDouble);
  return found;
}

double rounding(at::ScalarType type) {
  return type == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
}

void expect_equal(Few few, const Sizes& size, bool hides, at::ScalarType type) {
  SCOPED_TRACE(c10::str(size.many, " by ", size.few, few == Few::keys ? " keys, " : " queries, ",
                        size.width, " and ", size.value_width, hides ? ", some hidden " : " ",
                        type));
  const auto got = results(few, size, hides, type, type, kDevice),
             want = results(few, size, hides, type, at::kDouble, at::kCPU);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LE((got[i] - want[i]).norm().item<double>(),
              2 * rounding(type) * want[i].norm().item<double>())
        << i;  // false for NaN
}

class FewKeysCuda : public testing::TestWithParam<Few> {};

TEST_P(FewKeysCuda, IsTheDefinitionForAllSizes) {
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const bool hides : {false, true}) {
      // One key alone has no gradient but rounding.
      for (const int64_t many : {GetParam() == Few::keys ? 1 : 9, 63, 65, 1000})
        for (const int64_t few : {1, 15, 16, 17, 32, 33, 64})
          expect_equal(GetParam(), {many, few}, hides, type);
      if (GetParam() == Few::queries)
        for (const int64_t few : {65, 100, 128})
          expect_equal(GetParam(), {1100, few, 64, 40}, hides, type);
      for (const auto& [width, value_width] : {std::pair{8, 64}, {64, 8}, {24, 40}, {32, 32}})
        expect_equal(GetParam(), {200, 20, width, value_width}, hides, type);
    }
}

// These have no kernel.
TEST_P(FewKeysCuda, UsesTheFormulaElsewhere) {
  expect_equal(GetParam(), {70, 65}, true, at::kBFloat16);
  expect_equal(GetParam(), {1100, 129}, true, at::kBFloat16);
  expect_equal(GetParam(), {70, 16, 72, 64}, true, at::kBFloat16);
  expect_equal(GetParam(), {70, 16, 64, 12}, false, at::kHalf);
}

// Several tiles in a thread block, and as many tokens as blocks share out unevenly.
TEST_P(FewKeysCuda, AddsUpLongSequences) {
  expect_equal(GetParam(), {12000, 16}, false, at::kBFloat16);
  expect_equal(GetParam(), {11111, 64}, true, at::kBFloat16);
  if (GetParam() == Few::queries) expect_equal(GetParam(), {11111, 100}, true, at::kBFloat16);
}

INSTANTIATE_TEST_SUITE_P(Both, FewKeysCuda, testing::Values(Few::keys, Few::queries));

}  // namespace
}  // namespace longbow
