#include <gtest/gtest.h>

#include "tests/ops/slot_mixtures.h"

namespace longbow {
namespace {

const at::Device kDevice("cuda:0");

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>();
}

bool has_kernel(const MixtureProblem& p) {
  const auto rows = [&](int64_t tokens, int64_t width) {
    return at::empty({1, 1, tokens, width}, at::TensorOptions(at::kFloat).device(kDevice));
  };
  const auto& s = p.size;
  return has_mixture_kernel(rows(s.tokens, s.width), rows(s.slots, s.width),
                            rows(s.slots, s.value_width), p.rate > 0);
}

// Against float64, and beside float32 as LibTorch computes it.
void expect_near_formula(const MixtureProblem& p) {
  const auto& s = p.size;
  SCOPED_TRACE(c10::str(s.tokens, " tokens, ", s.heads, " x ", s.slots, " slots, ", s.width,
                        " and ", s.value_width, ", bias ", static_cast<int>(p.bias), ", rate ",
                        p.rate));
  const auto got = mixture_results(slot_mixture, p, at::kFloat, kDevice),
             want = mixture_results(slot_mixture_formula, p, at::kDouble, at::kCPU),
             plain = mixture_results(slot_mixture_formula, p, at::kFloat, at::kCPU);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(distance(got[i], want[i]),
              2 * distance(plain[i], want[i]) + 2e-7 * want[i].norm().item<double>())
        << i;  // false for NaN
}
void expect_as_exact_as_float32(const MixtureProblem& p) {
  EXPECT_TRUE(has_kernel(p));
  expect_near_formula(p);
}

TEST(SlotMixtureCuda, IsTheFormulaForAllSizes) {
  for (const int64_t slots : {5, 20, 64, 128, 200})
    for (const int64_t heads : {1, 4})
      for (const double rate : {0.0, 0.3})
        if (slots % 4 == 0 || rate == 0)
          expect_as_exact_as_float32({{.tokens = 77, .slots = slots, .heads = heads},
                                      heads == 1 ? SlotBias::none : SlotBias::all,
                                      rate});
  for (const int64_t tokens : {1, 16, 63, 300})
    expect_as_exact_as_float32({{.tokens = tokens, .slots = 100}, SlotBias::all, 0.1});
}

TEST(SlotMixtureCuda, TakesRowsOfAnyMultipleOfFour) {
  for (const auto& [width, value_width] :
       {std::pair{4, 64}, {64, 12}, {36, 40}, {128, 128}, {100, 8}})
    for (const int64_t slots : {20, 128})
      expect_as_exact_as_float32(
          {{.tokens = 50, .slots = slots, .width = width, .value_width = value_width},
           SlotBias::all,
           0.1});
}

TEST(SlotMixtureCuda, HidesSlots) {
  for (const int64_t slots : {60, 128})
    expect_as_exact_as_float32({{.tokens = 40, .slots = slots}, SlotBias::hides, 0.1});
}

TEST(SlotMixtureCuda, TakesLanesOfTokens) {
  expect_as_exact_as_float32({{.tokens = 40, .slots = 32, .heads = 1, .width = 32, .lanes = 3}});
}

TEST(SlotMixtureCuda, UsesTheFormulaElsewhere) {
  for (const MixtureProblem& p : {MixtureProblem{{.tokens = 20, .slots = 5, .width = 6}},
                                  {{.tokens = 20, .slots = 257}},
                                  {{.tokens = 20, .slots = 5}, SlotBias::all, 0.2},
                                  {{.tokens = 20, .slots = 129, .width = 72}}}) {
    EXPECT_FALSE(has_kernel(p));
    expect_near_formula(p);
  }
}

// Several tiles in a thread block, and as many tokens as blocks share out unevenly.
TEST(SlotMixtureCuda, AddsUpLongSequences) {
  expect_as_exact_as_float32(
      {{.tokens = 333, .slots = 128, .heads = 1, .width = 16, .value_width = 16, .batch = 67},
       SlotBias::all,
       0.1});
}

}  // namespace
}  // namespace longbow
