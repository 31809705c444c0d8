#include <gtest/gtest.h>

#include "tests/ops/perceptrons.h"

namespace longbow {
namespace {

using kernels::Curve;

const at::Device kDevice("cuda:0");

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>();
}

const auto kFloats = at::TensorOptions(at::kFloat).device(kDevice);

PerceptronLayer layer_of(const PerceptronProblem& p, const at::Tensor& key = {}) {
  return {at::ones({p.units, p.width}, kFloats),
          at::ones({p.units}, kFloats),
          at::ones({p.out, p.units}, kFloats),
          at::ones({p.out}, kFloats),
          p.curve,
          {p.rate, key, 1}};
}
bool has_kernel(const PerceptronProblem& p) {
  return has_perceptron_kernel(at::ones({p.tokens, p.width}, kFloats), layer_of(p));
}

// Against float64, and beside float32 as LibTorch computes it.
void expect_near_formula(const PerceptronProblem& p) {
  SCOPED_TRACE(c10::str(p.tokens, " tokens, ", p.units, " units, ", p.width, " to ", p.out,
                        ", curve ", static_cast<int>(p.curve), ", rate ", p.rate));
  const auto got = perceptron_results(perceptron, p, at::kFloat, kDevice),
             want = perceptron_results(perceptron_formula, p, at::kDouble, at::kCPU),
             plain = perceptron_results(perceptron_formula, p, at::kFloat, at::kCPU);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(distance(got[i], want[i]),
              2 * distance(plain[i], want[i]) + 2e-7 * want[i].norm().item<double>())
        << i;  // false for NaN
}
void expect_as_exact_as_float32(const PerceptronProblem& p) {
  EXPECT_TRUE(has_kernel(p));
  expect_near_formula(p);
}

TEST(PerceptronCuda, IsTheFormulaForAllSizes) {
  for (const auto curve : {Curve::gelu, Curve::relu})
    for (const int64_t units : {4, 64, 100, 128, 384})
      for (const double rate : {0.0, 0.3})
        expect_as_exact_as_float32({.tokens = 45, .units = units, .curve = curve, .rate = rate});
  for (const int64_t tokens : {1, 16, 300})
    expect_as_exact_as_float32({.tokens = tokens, .units = 128, .rate = 0.1});
  for (const auto& [width, out] : {std::pair{4, 64}, {64, 12}, {36, 100}, {128, 128}})
    expect_as_exact_as_float32({.tokens = 50, .units = 96, .width = width, .out = out});
}

TEST(PerceptronCuda, UsesTheFormulaElsewhere) {
  for (const PerceptronProblem& p : {PerceptronProblem{.tokens = 20, .units = 6},
                                     {.tokens = 20, .units = 129},
                                     {.tokens = 20, .units = 16, .width = 6},
                                     {.tokens = 20, .units = 16, .curve = Curve::silu}}) {
    EXPECT_FALSE(has_kernel(p));
    expect_near_formula(p);
  }
}

TEST(PerceptronCuda, NamesAKeyThatIsNone) {
  const PerceptronProblem p = {.tokens = 2, .units = 8, .rate = 0.5};
  const auto layer = layer_of(p, at::zeros({3}, kFloats.dtype(at::kLong)));
  EXPECT_NE(error_of([&] {
              perceptron(at::ones({p.tokens, p.width}, kFloats), layer);
            }).find("perceptron: key is [3] Long, but needs [2] int64"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
