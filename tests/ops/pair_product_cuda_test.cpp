#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/ops/pair_product.h"
#include "longbow/ops/pair_product_formula.h"
#include "tests/ops/pair_products.h"

namespace longbow {
namespace {

using at::Tensor;

const at::Device kDevice("cuda:0");

double rounding(at::ScalarType type) {
  return type == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
}

void expect_equal(const PairProblem& p, at::ScalarType type) {
  SCOPED_TRACE(p.named() + " " + c10::toString(type));
  const auto got = pair_results(p, type, type, kDevice),
             want = pair_results(p, type, at::kDouble, at::kCPU);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LE((got[i] - want[i]).norm().item<double>(),
              2 * rounding(type) * want[i].norm().item<double>())
        << i;  // false for NaN
}

TEST(PairProductCuda, IsTheDefinitionForAllSizes) {
  for (const bool causal : {false, true})
    for (const bool hides : {false, true})
      for (const int64_t budget : {0, 7})
        for (const auto& [queries, keys] : {std::pair{17, 30}, {129, 129}, {200, 65}, {63, 300}})
          expect_equal({queries, keys, 64, 64, causal, hides, budget},
                       queries == 129 ? at::kHalf : at::kBFloat16);
}

TEST(PairProductCuda, TakesAllWidths) {
  for (const int64_t budget : {0, 20})
    for (const auto& [width, value_width] : {std::pair{8, 64}, {64, 8}, {24, 40}})
      expect_equal({100, 150, width, value_width, false, true, budget}, at::kBFloat16);
}

// These have no kernel.
TEST(PairProductCuda, UsesTheFormulaElsewhere) {
  for (const int64_t budget : {0, 20})
    for (const auto& [width, value_width] : {std::pair{12, 64}, {72, 64}})
      expect_equal({40, 50, width, value_width, true, false, budget}, at::kBFloat16);
}

TEST(PairProductCuda, KeepsManyKeys) {
  for (const int64_t budget : {3, 64, 250, 300, 400})
    expect_equal({70, 300, 64, 64, false, false, budget}, at::kBFloat16);
}

// Whole numbers, of which many are equal: the kernel chooses exactly as the formula does.
TEST(TopKeysCuda, ChoosesTheSameOfEqualScores) {
  for (const bool ties : {false, true})
    for (const bool causal : {false, true})
      for (const int32_t budget : {1, 2, 40, 130, 1000}) {
        SCOPED_TRACE(c10::str(budget, ties ? " with ties" : "", causal ? " causal" : ""));
        const auto whole = [&](int64_t tokens, uint64_t seed) {
          return random_normal({2, 3, tokens, 16}, seed).mul(1.5).round().to(at::kBFloat16);
        };
        const auto q = whole(150, 1), k = whole(200, 2);
        const auto keep = random_normal({2, 200}, 3) > -1;
        const auto room = at::full({2, 150}, budget, at::kInt);
        const auto got =
            top_keys(q.to(kDevice), k.to(kDevice), {.causal = causal, .keep = keep.to(kDevice)},
                     room.to(kDevice), ties)
                .cpu();
        const auto want = top_keys_by_aten(q, k, keep, causal, room, ties);
        const auto in = [&](const Tensor& top) {  // which keys are
          auto s = q.to(at::kFloat).matmul(k.to(at::kFloat).transpose(-2, -1));
          if (causal)
            s = s.masked_fill(at::ones({150, 200}, at::kBool).triu(200 - 150 + 1), -INFINITY);
          s = s.masked_fill(keep.logical_not().view({2, 1, 1, 200}), -INFINITY);
          const auto floor = top[0].unsqueeze(-1), last = top[1].unsqueeze(-1);
          return (s > floor).logical_or(
              (s == floor).logical_and(s > -INFINITY).logical_and(at::arange(200) <= last));
        };
        EXPECT_TRUE(at::equal(in(got), in(want)));
        EXPECT_TRUE(at::equal(got[0], want[0]));
        EXPECT_TRUE(at::equal(got[2], want[2]));
      }
}

TEST(PairProductCuda, AddsUpLongSequences) {
  expect_equal({500, 1500, 64, 64, false, false, 0}, at::kBFloat16);
  expect_equal({500, 1500, 64, 64, true, true, 100}, at::kBFloat16);
}

}  // namespace
}  // namespace longbow
