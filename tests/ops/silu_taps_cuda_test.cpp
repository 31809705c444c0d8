#include <ATen/ATen.h>

#include "longbow/ops/silu_taps.h"
#include "tests/ops/roundings.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// y and all gradients of numbers that were rounded to bfloat16; the rows are parts of wider ones.
std::vector<Tensor> results(int64_t tokens, int64_t channels, int64_t taps, bool reversed,
                            const at::TensorOptions& options, bool formula,
                            const UnitParts& unit = {}) {
  const auto given = [&](at::IntArrayRef sizes, uint64_t seed) {
    return (random_normal(sizes, seed) * 0.7).to(at::kBFloat16).to(options).requires_grad_();
  };
  const auto rows = given({2, tokens, channels + 16}, 1), factors = given({channels, taps}, 2),
             bias = given({channels}, 3);
  const auto y = (formula ? silu_taps_formula : silu_taps)(rows.narrow(-1, 8, channels), factors,
                                                           bias, reversed, unit);
  y.backward(random_normal({2, tokens, channels}, 4).to(at::kBFloat16).to(options));
  std::vector<Tensor> found = {y.detach(), rows.grad(), factors.grad(), bias.grad()};
  for (auto& t : found) t = t.cpu().to(at::kDouble);
  return found;
}

TEST(SiluTapsCuda, IsTheFormulaForAllShapes) {
  const auto gpu = at::TensorOptions("cuda:0").dtype(at::kBFloat16);
  for (const int64_t taps : {1, 2, 3, 4, 5})
    for (const int64_t tokens : {1, 3, 64, 65, 1000})
      for (const int64_t channels : {8, 24, 520, 12})
        for (const bool reversed : {false, true}) {
          SCOPED_TRACE(
              c10::str(tokens, " x ", channels, ", ", taps, " taps", reversed ? ", reversed" : ""));
          const auto want = results(tokens, channels, taps, reversed, at::kDouble, true),
                     got = results(tokens, channels, taps, reversed, gpu, false);
          for (size_t i = 0; i < got.size(); ++i)
            EXPECT_LT(roundings(got[i], want[i], false), 2) << i;
        }
}

// Of both directions at once, or of two calls: what they are, and all gradients.
std::vector<Tensor> both_results(int64_t tokens, int64_t channels, int64_t taps,
                                 const at::TensorOptions& options, bool at_once,
                                 const UnitParts& unit = {}) {
  const auto given = [&](at::IntArrayRef sizes, uint64_t seed) {
    return (random_normal(sizes, seed) * 0.7).to(at::kBFloat16).to(options).requires_grad_();
  };
  const auto rows = given({2, tokens, channels + 16}, 1), factors = given({channels, taps}, 2),
             bias = given({channels}, 3), z = rows.narrow(-1, 8, channels);
  const auto [forth, back] = at_once ? silu_taps_both(z, factors, bias, unit)
                                     : BothTaps{silu_taps_formula(z, factors, bias, false, unit),
                                                silu_taps_formula(z, factors, bias, true, unit)};
  const auto dy = random_normal({2, 2, tokens, channels}, 4).to(at::kBFloat16).to(options);
  ((forth * dy[0]).sum() + (back * dy[1]).sum()).backward();
  std::vector<Tensor> found = {forth.detach(), back.detach(), rows.grad(), factors.grad(),
                               bias.grad()};
  for (auto& t : found) t = t.cpu().to(at::kDouble);
  return found;
}

TEST(SiluTapsCuda, BothDirectionsAtOnceAreTheFormulaForAllShapes) {
  const auto gpu = at::TensorOptions("cuda:0").dtype(at::kBFloat16);
  for (const int64_t taps : {1, 2, 3, 4, 5})
    for (const int64_t tokens : {1, 3, 64, 65, 1000})
      for (const int64_t channels : {8, 520, 12}) {
        SCOPED_TRACE(c10::str(tokens, " x ", channels, ", ", taps, " taps"));
        const auto want = both_results(tokens, channels, taps, at::kDouble, false),
                   got = both_results(tokens, channels, taps, gpu, true);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_LT(roundings(got[i], want[i], false), 2) << i;
      }
}

TEST(SiluTapsCuda, MakesPartsOfLengthOne) {
  const auto gpu = at::TensorOptions("cuda:0").dtype(at::kBFloat16);
  for (const int64_t width : {8, 16, 64, 128, 24})
    for (const int64_t tokens : {1, 65, 200})
      for (const int64_t rest : {0, 8}) {
        SCOPED_TRACE(c10::str(tokens, " tokens, 3 parts of ", width, " and ", rest));
        const UnitParts unit = {3 * width, width};
        const int64_t channels = 3 * width + rest;
        for (const bool reversed : {false, true}) {
          const auto want = results(tokens, channels, 4, reversed, at::kDouble, true, unit),
                     got = results(tokens, channels, 4, reversed, gpu, false, unit);
          for (size_t i = 0; i < got.size(); ++i)
            EXPECT_LT(roundings(got[i], want[i], false), 2) << i;
        }
        const auto want = both_results(tokens, channels, 4, at::kDouble, false, unit),
                   got = both_results(tokens, channels, 4, gpu, true, unit);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_LT(roundings(got[i], want[i], false), 2) << i;
      }
}

}  // namespace
}  // namespace longbow
